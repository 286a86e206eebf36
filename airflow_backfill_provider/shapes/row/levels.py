"""
Splits a query into its levels: the ``SELECT`` over the upstream, and those around it.

A query may have steps: common table expressions (``WITH``), subqueries in ``FROM``, and pipe operators (``|>``). Each
step reads the rows of the step before it, so the steps form a chain that begins at the upstream. Each is parsed by
itself as a plain ``SELECT … FROM relation [WHERE …]``, so that one set of rules holds for all of them. A pipe operator
is parsed as the equivalent ``SELECT``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.query_text import ONE_SELECT, QueryText, one_line


@dataclass(frozen=True, slots=True)
class Level:
    """
    One step of a query.

    :param select: the step's tree, over one plain relation.
    :param tokens: the tree's tokens; added ones have the position where the step begins.
    :param alias: the name of the relation that the step reads; empty if there is no reliable one.
    :param reads: the position of the relation's name in the text if the step reads the upstream: start, end, and
        whether the query gives it an alias.
    :param end_of_list: the position in the text where columns can be added; ``None`` if there is no list of columns.
    :param is_piped: whether there is no list because the step begins with FROM; ``|> EXTEND`` can be added instead.
    """

    select: exp.Select
    tokens: tuple[Token, ...]
    alias: str
    reads: tuple[int, int, bool] | None = None
    end_of_list: int | None = None
    is_piped: bool = False
    columns: tuple[tuple[str, str], ...] = field(init=False)
    """(input, output) of each column that the step passes on unchanged, without those of a star."""
    star_without: frozenset[str] | None = field(init=False)
    """The columns that the step's star drops or replaces, in lower case; ``None`` without a star over the relation."""
    names: frozenset[str] = field(init=False)
    """The names of the step's output columns in lower case, without those of a star."""

    def __post_init__(self) -> None:
        columns, star_without, names = _outputs(self.select, self.alias)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "star_without", star_without)
        object.__setattr__(self, "names", names)

    def passes_on(self, columns: Sequence[str]) -> list[str]:
        """Return the names under which the step passes on input columns unchanged."""
        read = {column.lower() for column in columns}
        found = [output for source, output in self.columns if source.lower() in read]
        if self.star_without is not None:
            found += [column for column in columns if column.lower() not in self.star_without]
        return found

    def gives(self, read: frozenset[str]) -> frozenset[str]:
        """Return the names of the step's output columns, in lower case, without those that only Spark knows."""
        kept = read - self.star_without if self.star_without is not None else frozenset()
        return self.names | kept


def query_levels(query: QueryText) -> tuple[Level, ...]:
    """
    Parse a query.

    :returns: its levels; the first one reads the upstream, each other one the level before it.
    :raises InvalidJobError: if it is not a chain of levels over the upstream, or cannot be parsed.
    """
    try:
        return _levels(query.text, list(query.tokens))
    except InvalidJobError:
        raise
    except SqlglotError as error:
        raise InvalidJobError(f"the query has a syntax error: {one_line(error)}") from None
    except (AttributeError, AssertionError, RecursionError, TypeError, ValueError):
        # The parser itself fails like this on text that is not a plain SELECT.
        raise InvalidJobError("the query has a syntax error: it cannot be parsed") from None


def unsupported(what: str) -> InvalidJobError:
    """Return the error for a construct that no row-level query may have."""
    return InvalidJobError(
        f"the query uses {what} but must be row-level: SELECT expressions FROM {RELATION} [WHERE condition], with "
        "deterministic functions of one row"
    )


def _levels(text: str, tokens: list[Token]) -> tuple[Level, ...]:
    end = next((index for index, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON), len(tokens))
    if any(token.token_type != TokenType.SEMICOLON for token in tokens[end:]):
        raise InvalidJobError(ONE_SELECT)
    if sum(_step(token) for token in tokens):
        raise InvalidJobError("the query has a syntax error: parentheses do not match")
    chain = _Chain(text)
    levels = tuple(chain.levels_of(tokens[:end], {}))
    if chain.unread:
        raise unsupported(f"WITH {min(chain.unread)}, which is never read,")
    return levels


@dataclass(frozen=True, slots=True)
class _CommonTable:
    """A common table expression: its tokens, and the other ones that it may read."""

    tokens: list[Token]
    tables: Mapping[str, _CommonTable]


class _Chain:
    """Follows a query from its outermost SELECT down to the upstream."""

    def __init__(self, text: str) -> None:
        self.parse = partial(_parse, text)
        self.unread: set[str] = set()

    def levels_of(self, tokens: list[Token], tables: Mapping[str, _CommonTable]) -> Iterator[Level]:
        """
        Yield the levels of a query or of a subquery, the innermost first.

        :param tables: the common table expressions that it may read, by name in lower case.
        """
        tokens = _without_parentheses(tokens)
        if _type(tokens, 0) == TokenType.WITH:
            tables, tokens = self._with(tokens, tables)
        head, *operators = _split(tokens, TokenType.PIPE_GT)
        head = _without_parentheses(head)
        if _type(head, 0) == TokenType.FROM and operators:
            star = _words(head[0], (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
            yield from self._select([*star, *head], tables, is_piped=True)
        elif _type(head, 0) == TokenType.SELECT:
            yield from self._select(head, tables)
        elif _type(head, 0) in {TokenType.WITH, TokenType.L_PAREN} and len(head) < len(tokens):
            yield from self.levels_of(head, tables)
        else:
            raise InvalidJobError(ONE_SELECT)
        alias = ""
        for operator in operators:
            level = self._operator(operator, alias)
            yield level
            # After other operators, some columns keep the name of the relation before them and others have none.
            alias = level.alias if _type(operator, 0) in {TokenType.WHERE, TokenType.ALIAS} else ""

    def _with(
        self, tokens: list[Token], tables: Mapping[str, _CommonTable]
    ) -> tuple[dict[str, _CommonTable], list[Token]]:
        """Return the common table expressions before a query, and the rest; each may read those before it."""
        known = dict(tables)
        index = 1
        while True:
            name, as_, opening = tokens[index : index + 3] if len(tokens) > index + 3 else (tokens[0],) * 3
            if (as_.token_type, opening.token_type) != (TokenType.ALIAS, TokenType.L_PAREN):
                raise unsupported("WITH in another form than WITH name AS (SELECT …)")
            closing = _closing(tokens, index + 2)
            known[name.text.lower()] = _CommonTable(tokens[index + 3 : closing], dict(known))
            self.unread.add(name.text.lower())
            index = closing + 1
            if _type(tokens, index) != TokenType.COMMA:
                return known, tokens[index:]
            index += 1

    def _select(
        self, tokens: list[Token], tables: Mapping[str, _CommonTable], *, is_piped: bool = False
    ) -> Iterator[Level]:
        """Yield the levels of a SELECT with its FROM."""
        at = _from_index(tokens)
        relation = tokens[at + 1]
        name = relation.text.lower()
        is_nested = relation.token_type == TokenType.L_PAREN
        is_common = name in tables and _type(tokens, at + 2) not in {TokenType.DOT, TokenType.L_PAREN}
        if is_nested:
            closing = _closing(tokens, at + 1)
            yield from self.levels_of(tokens[at + 2 : closing], tables)
            tokens = [*tokens[: at + 1], *_words(relation, (TokenType.VAR, RELATION)), *tokens[closing + 1 :]]
        elif is_common:
            self.unread.discard(name)
            yield from self.levels_of(tables[name].tokens, tables[name].tables)
        select = self.parse(tokens)
        table = _only_relation(select, name if is_common else RELATION)
        is_named = bool(table.alias)
        yield Level(
            select=select,
            tokens=tuple(tokens),
            alias="" if is_nested and not is_named else table.alias_or_name,
            reads=None if is_nested or is_common else (relation.start, relation.end + 1, is_named),
            end_of_list=tokens[-1].end + 1 if is_piped else tokens[at].start,
            is_piped=is_piped,
        )

    def _operator(self, tokens: list[Token], alias: str) -> Level:
        """Return the SELECT that is equivalent to a pipe operator."""
        if not tokens:
            raise InvalidJobError("the query has a syntax error: nothing follows |>")
        first, rest = tokens[0], tokens[1:]
        source = _words(first, (TokenType.FROM, "FROM"), (TokenType.VAR, RELATION))
        star = _words(first, (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
        end_of_list = None
        match first.token_type, first.text.lower():
            case TokenType.SELECT, _:
                if any(token.token_type in {TokenType.FROM, TokenType.WHERE} for _, token in _outermost(rest)):
                    raise unsupported("|> SELECT with more than expressions")
                written = [*tokens, *source]
                end_of_list = tokens[-1].end + 1
            case TokenType.WHERE, _:
                written = [*star, *source, *tokens]
            case _, "extend":
                written = [*star, *_words(first, (TokenType.COMMA, ",")), *rest, *source]
            case _, "set":
                written = [*star, *_replaced(first, rest), *source]
            case _, "drop":
                written = [*star, *_words(first, (TokenType.EXCEPT, "EXCEPT"), (TokenType.L_PAREN, "(")), *rest]
                written += [*_words(first, (TokenType.R_PAREN, ")")), *source]
            case TokenType.ALIAS, _ if len(rest) == 1:
                written = [*star, *source]
                alias = rest[0].text
            case _:
                raise unsupported(f"the pipe operator {first.text.upper()}")
        select = self.parse(written)
        _only_relation(select, RELATION)
        return Level(select=select, tokens=tuple(written), alias=alias, end_of_list=end_of_list)


def _parse(text: str, tokens: list[Token]) -> exp.Select:
    statements = sqlglot.Dialect.get_or_raise("spark").parser().parse(tokens, text)
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise InvalidJobError(ONE_SELECT)
    return statements[0]


def _only_relation(select: exp.Select, relation: str) -> exp.Table:
    tables = list(select.find_all(exp.Table))
    if len(tables) != 1 or select.args.get("joins"):
        raise unsupported("joins and subqueries" if len(tables) > 1 else f"a query without FROM {RELATION}")
    table = tables[0]
    if table.name.lower() != relation or table.args.get("db") or not isinstance(table.this, exp.Identifier):
        raise InvalidJobError(f"the query reads {table.sql()!r}; it may read {RELATION} only")
    extras = {name for name, value in table.args.items() if value and name not in {"this", "alias"}}
    alias = table.args.get("alias")
    if extras or (alias is not None and alias.args.get("columns")):
        raise InvalidJobError(f"the query must read plain {RELATION}, without {', '.join(sorted(extras)) or 'columns'}")
    return table


def _outputs(
    select: exp.Select, alias: str
) -> tuple[tuple[tuple[str, str], ...], frozenset[str] | None, frozenset[str]]:
    columns: list[tuple[str, str]] = []
    without: set[str] = set()
    names: set[str] = set()
    has_star = False
    for projection in select.expressions:
        source = projection.unalias()
        star = source if isinstance(source, exp.Star) else source.this if isinstance(source, exp.Column) else None
        if isinstance(star, exp.Star):
            if isinstance(source, exp.Column) and source.table.lower() != alias.lower():
                continue  # the fields of a struct, which are not key columns
            has_star = True
            for excluded in star.args.get("except_") or star.args.get("except") or ():
                without.add(excluded.name.lower())
            for replaced in star.args.get("replace") or ():
                without.add(replaced.alias.lower())
                names.add(replaced.alias.lower())
            continue
        names.add(projection.alias_or_name.lower())
        if isinstance(source, exp.Column) and source.table.lower() in {"", alias.lower()} and not source.db:
            columns.append((source.name, projection.alias_or_name))
    return tuple(columns), frozenset(without) if has_star else None, frozenset(names - {""})


def _from_index(tokens: Sequence[Token]) -> int:
    """Return the index of the outermost FROM."""
    for index, token in _outermost(tokens[:-1]):
        if token.token_type == TokenType.FROM:
            return index
    if tokens[-1].token_type == TokenType.FROM:
        raise InvalidJobError("the query has a syntax error: nothing follows FROM")
    raise unsupported(f"a query without FROM {RELATION}")


def _replaced(first: Token, assignments: list[Token]) -> list[Token]:
    """Return ``REPLACE (expression AS column, …)`` for ``SET column = expression, …``."""
    written = _words(first, (TokenType.REPLACE, "REPLACE"), (TokenType.L_PAREN, "("))
    for number, assignment in enumerate(_split(assignments, TokenType.COMMA)):
        if _type(assignment, 1) != TokenType.EQ:
            raise InvalidJobError("the query has a syntax error: |> SET needs column = expression")
        if number:
            written += _words(first, (TokenType.COMMA, ","))
        written += [*assignment[2:], *_words(first, (TokenType.ALIAS, "AS")), assignment[0]]
    return [*written, *_words(first, (TokenType.R_PAREN, ")"))]


def _words(at: Token, *words: tuple[TokenType, str]) -> list[Token]:
    """Return added tokens at the position of a token from the text."""
    return [Token(kind, text, at.line, at.col, at.start, at.start, []) for kind, text in words]


def _split(tokens: list[Token], separator: TokenType) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _step(token)
        if depth == 0 and token.token_type == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _outermost(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside parentheses that may be keywords, with their index."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += _step(token)
        # IS DISTINCT FROM is a comparison, and after a dot any word is a name.
        if depth == 0 and _type(tokens, index - 1) not in {TokenType.DISTINCT, TokenType.DOT}:
            yield index, token


def _without_parentheses(tokens: list[Token]) -> list[Token]:
    while _type(tokens, 0) == TokenType.L_PAREN and _closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += _step(tokens[index])
        if depth == 0:
            return index
    raise InvalidJobError("the query has a syntax error: a parenthesis is not closed")


def _step(token: Token) -> int:
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)


def _type(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if 0 <= index < len(tokens) else None
