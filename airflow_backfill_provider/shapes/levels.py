"""
Splits a query into its levels: the ``SELECT`` over the upstream, and those around it.

A query may have steps: common table expressions (``WITH``), subqueries in ``FROM``, and pipe operators (``|>``). Each
step reads the rows of the step before it, so the steps form a chain that begins at the upstream. Each is parsed by
itself as a plain ``SELECT … FROM relation [WHERE …]``, so that one set of rules holds for all of them. A pipe operator
is parsed as the equivalent ``SELECT``. What a step may have beyond that is its shape's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.pipe_operators import Operator, equivalent_select
from airflow_backfill_provider.shapes.query_text import ONE_SELECT, QueryText, one_line
from airflow_backfill_provider.shapes.token_lists import (
    added,
    closing_of,
    depth_step,
    outermost,
    split,
    type_at,
    without_parentheses,
)


@dataclass(frozen=True, slots=True)
class LevelRules:
    """
    What a shape allows in the steps of its queries.

    :param unsupported: returns the error for a construct that no query of the shape may have.
    :param operators: the pipe operators that only this shape allows, by name in lower case. Each function gets the
        operator's first token, the other tokens, and the tokens of the relation, and returns the equivalent SELECT.
    :param relation: the name of the only relation that the steps may read; empty if they may read any.
    """

    unsupported: Callable[[str], InvalidJobError]
    operators: Mapping[str, Operator] = field(default_factory=dict)
    relation: str = RELATION


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
    :param span: the step's place in the text: start and end. That of a pipe operator begins after the ``|>``.
    :param relation: the place in the text of the relation that the step reads, without its alias; ``None`` if the step
        is a pipe operator.
    """

    select: exp.Select
    tokens: tuple[Token, ...]
    alias: str
    reads: tuple[int, int, bool] | None = None
    end_of_list: int | None = None
    is_piped: bool = False
    span: tuple[int, int] = (0, 0)
    relation: tuple[int, int] | None = None
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


def query_levels(query: QueryText, rules: LevelRules) -> tuple[Level, ...]:
    """
    Parse a query.

    :param rules: what the shape allows in the steps.
    :returns: its levels; the first one reads the upstream, each other one the level before it.
    :raises InvalidJobError: if it is not a chain of levels over the upstream, or cannot be parsed.
    """
    with syntax_errors():
        chain = Chain(query.text, rules)
        levels = tuple(chain.levels_of(one_statement(query.tokens), {}))
        chain.require_all_read()
        return levels


@contextmanager
def syntax_errors() -> Iterator[None]:
    """Raise :class:`InvalidJobError` for the errors of the parser."""
    try:
        yield
    except InvalidJobError:
        raise
    except SqlglotError as error:
        raise InvalidJobError(f"the query has a syntax error: {one_line(error)}") from None
    except (AttributeError, AssertionError, RecursionError, TypeError, ValueError):
        # The parser itself fails like this on text that is not a plain SELECT.
        raise InvalidJobError("the query has a syntax error: it cannot be parsed") from None


def one_statement(tokens: Sequence[Token]) -> list[Token]:
    """
    Return the tokens of a query without closing semicolons.

    :raises InvalidJobError: if they are several statements, or parentheses do not match.
    """
    end = next((index for index, token in enumerate(tokens) if token.token_type == TokenType.SEMICOLON), len(tokens))
    if any(token.token_type != TokenType.SEMICOLON for token in tokens[end:]):
        raise InvalidJobError(ONE_SELECT)
    if sum(depth_step(token) for token in tokens):
        raise InvalidJobError("the query has a syntax error: parentheses do not match")
    return list(tokens[:end])


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A common table expression: its tokens, and the other ones that it may read."""

    tokens: list[Token]
    tables: Mapping[str, CommonTable]


@dataclass(frozen=True, slots=True)
class RelationPlace:
    """
    The place of a SELECT where a relation stands.

    :param first: the index of its first token.
    :param last: the index of its last token, without an alias.
    :param span: where it stands in the text.
    :param name: its name in lower case; empty if it is nested.
    :param inner: the subquery or the common table expression that it stands for; ``None`` if it is an upstream.
    """

    first: int
    last: int
    span: tuple[int, int]
    name: str
    inner: CommonTable | None

    @property
    def is_nested(self) -> bool:
        """Whether it is a query in parentheses."""
        return not self.name


class Chain:
    """
    Follows a query from its outermost SELECT down to the upstream.

    :param text: the query's text.
    :param rules: what the shape allows in the steps.
    """

    def __init__(self, text: str, rules: LevelRules) -> None:
        self.parse = partial(_parse, text)
        self.rules = rules
        self._unread: set[str] = set()

    def require_all_read(self) -> None:
        """Refuse common table expressions that nothing reads."""
        if self._unread:
            raise self.rules.unsupported(f"WITH {min(self._unread)}, which is never read,")

    def levels_of(self, tokens: list[Token], tables: Mapping[str, CommonTable]) -> Iterator[Level]:
        """
        Yield the levels of a query or of a subquery, the innermost first.

        :param tables: the common table expressions that it may read, by name in lower case.
        """
        tokens = without_parentheses(tokens)
        if type_at(tokens, 0) == TokenType.WITH:
            tables, tokens = self.with_tables(tokens, tables)
        head, *operators = split(tokens, TokenType.PIPE_GT)
        head = without_parentheses(head)
        if type_at(head, 0) == TokenType.FROM and operators:
            star = added(head[0], (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
            yield from self._select([*star, *head], tables, is_piped=True)
        elif type_at(head, 0) == TokenType.SELECT:
            yield from self._select(head, tables)
        elif type_at(head, 0) in {TokenType.WITH, TokenType.L_PAREN} and len(head) < len(tokens):
            yield from self.levels_of(head, tables)
        else:
            raise InvalidJobError(ONE_SELECT)
        yield from self.operators(operators)

    def operators(self, operators: Sequence[list[Token]]) -> Iterator[Level]:
        """Yield the levels of pipe operators."""
        alias = ""
        for operator in operators:
            level = self._operator(operator, alias)
            yield level
            # After other operators, some columns keep the name of the relation before them and others have none.
            alias = level.alias if type_at(operator, 0) in {TokenType.WHERE, TokenType.ALIAS} else ""

    def with_tables(
        self, tokens: list[Token], tables: Mapping[str, CommonTable]
    ) -> tuple[dict[str, CommonTable], list[Token]]:
        """Return the common table expressions before a query, and the rest; each may read those before it."""
        known = dict(tables)
        index = 1
        while True:
            name, as_, opening = tokens[index : index + 3] if len(tokens) > index + 3 else (tokens[0],) * 3
            if (as_.token_type, opening.token_type) != (TokenType.ALIAS, TokenType.L_PAREN):
                raise self.rules.unsupported("WITH in another form than WITH name AS (SELECT …)")
            closing = closing_of(tokens, index + 2)
            known[name.text.lower()] = CommonTable(tokens[index + 3 : closing], dict(known))
            self._unread.add(name.text.lower())
            index = closing + 1
            if type_at(tokens, index) != TokenType.COMMA:
                return known, tokens[index:]
            index += 1

    def place_of(self, tokens: list[Token], first: int, tables: Mapping[str, CommonTable]) -> RelationPlace:
        """
        Return the relation that begins at a token.

        :param first: the index of the token.
        :param tables: the common table expressions that the query may read.
        """
        relation = tokens[first]
        name = relation.text.lower()
        if relation.token_type == TokenType.L_PAREN:
            closing = closing_of(tokens, first)
            inner = CommonTable(tokens[first + 1 : closing], tables)
            return RelationPlace(first, closing, (relation.start, tokens[closing].end + 1), "", inner)
        span = (relation.start, relation.end + 1)
        if name in tables and type_at(tokens, first + 1) not in {TokenType.DOT, TokenType.L_PAREN}:
            self._unread.discard(name)
            return RelationPlace(first, first, span, name, tables[name])
        return RelationPlace(first, first, span, name, None)

    def level(self, tokens: list[Token], place: RelationPlace, *, at: int, is_piped: bool) -> Level:
        """
        Return the level of a SELECT over one relation.

        :param place: the relation.
        :param at: the index of FROM.
        :param is_piped: as in :class:`Level`.
        """
        if place.is_nested:
            named = added(tokens[place.first], (TokenType.VAR, RELATION))
            tokens = [*tokens[: place.first], *named, *tokens[place.last + 1 :]]
        select = self.parse(tokens)
        is_read = place.inner is None
        table = _only_relation(select, place.name if place.name and not is_read else RELATION, self.rules)
        is_named = bool(table.alias)
        return Level(
            select=select,
            tokens=tuple(tokens),
            alias="" if place.is_nested and not is_named else table.alias_or_name,
            reads=(*place.span, is_named) if is_read else None,
            end_of_list=tokens[-1].end + 1 if is_piped else tokens[at].start,
            is_piped=is_piped,
            span=(tokens[0].start, max(tokens[-1].end + 1, place.span[1])),
            relation=place.span,
        )

    def _select(
        self, tokens: list[Token], tables: Mapping[str, CommonTable], *, is_piped: bool = False
    ) -> Iterator[Level]:
        """Yield the levels of a SELECT with its FROM."""
        at = from_index(tokens, self.rules)
        place = self.place_of(tokens, at + 1, tables)
        if place.inner is not None:
            yield from self.levels_of(place.inner.tokens, place.inner.tables)
        yield self.level(tokens, place, at=at, is_piped=is_piped)

    def _operator(self, tokens: list[Token], alias: str) -> Level:
        """Return the SELECT that is equivalent to a pipe operator."""
        written = equivalent_select(tokens, self.rules.unsupported, self.rules.operators)
        first, end = tokens[0], tokens[-1].end + 1
        select = self.parse(written)
        _only_relation(select, RELATION, self.rules)
        return Level(
            select=select,
            tokens=tuple(written),
            alias=tokens[1].text if first.token_type == TokenType.ALIAS else alias,
            end_of_list=end if first.token_type == TokenType.SELECT else None,
            span=(first.start, end),
        )


def _parse(text: str, tokens: list[Token]) -> exp.Select:
    statements = sqlglot.Dialect.get_or_raise("spark").parser().parse(tokens, text)
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise InvalidJobError(ONE_SELECT)
    return statements[0]


def _only_relation(select: exp.Select, relation: str, rules: LevelRules) -> exp.Table:
    tables = list(select.find_all(exp.Table))
    if len(tables) != 1 or select.args.get("joins"):
        raise rules.unsupported("joins and subqueries" if len(tables) > 1 else f"a query without FROM {RELATION}")
    require_plain_table(tables[0], relation, rules)
    return tables[0]


def require_plain_table(table: exp.Table, relation: str, rules: LevelRules) -> None:
    """
    Refuse another relation than one, and one in another form than its name and an alias.

    :param relation: the name that it must have in lower case, unless the rules allow any.
    :raises InvalidJobError: with the relation.
    """
    readable = rules.relation or table.name
    is_other = table.name.lower() != relation and (bool(rules.relation) or not table.name)
    if is_other or table.args.get("db") or not isinstance(table.this, exp.Identifier):
        may = f"it may read {RELATION} only" if rules.relation else "it may read the names under upstreams only"
        raise InvalidJobError(f"the query reads {table.sql()!r}; {may}")
    extras = {name for name, value in table.args.items() if value and name not in {"this", "alias"}}
    alias = table.args.get("alias")
    if extras or (alias is not None and alias.args.get("columns")):
        raise InvalidJobError(f"the query must read plain {readable}, without {', '.join(sorted(extras)) or 'columns'}")


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


def from_index(tokens: Sequence[Token], rules: LevelRules) -> int:
    """
    Return the index of the outermost FROM.

    :raises InvalidJobError: if there is none, or nothing follows it.
    """
    for index, token in outermost(tokens[:-1]):
        if token.token_type == TokenType.FROM:
            return index
    if tokens[-1].token_type == TokenType.FROM:
        raise InvalidJobError("the query has a syntax error: nothing follows FROM")
    raise rules.unsupported(f"a query without FROM {RELATION}")
