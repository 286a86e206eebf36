"""
The materialized view's query: what it may be, and how it is read.

A query is one row-level ``SELECT … FROM upstream [WHERE …]``: each upstream row gives at most one row of the view,
by itself and always the same one. That is what lets an epoch apply a change by its key alone. The shape is checked
on the syntax tree, here and without Spark; names and types are Spark's to check when the job is created.

The text that the user wrote is never printed back from the tree: hidden key columns are spliced into it at
token positions, so that Spark runs the very expressions that were written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.query_columns import possible_columns
from airflow_backfill_provider.core.query_functions import (
    AGGREGATES,
    GENERATORS,
    NON_DETERMINISTIC,
    identifier_clauses,
    refuse_other_functions,
)

RELATION = "upstream"
HIDDEN_KEY_PREFIX = "__key_"
"""What the name of a hidden key column begins with; with more underscores where the view has such a name already."""

_MOVING = re.compile(r"^\s*((now|today|tomorrow|yesterday)(\s+\S+)?\s*$|T?\d{1,2}:)", re.IGNORECASE)
"""Texts that Spark reads as another date or timestamp each day: a word, or a time without a date."""

_UNSUPPORTED: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Query, exp.Subquery, exp.Exists), "subqueries"),
    ((exp.QueryTransform,), "a script transformation"),
    ((exp.Window, exp.WithinGroup), "window functions"),
    ((exp.Parameter, exp.Placeholder), "parameters"),
)

_CLAUSES = {
    "distinct": "DISTINCT",
    "group": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "joins": "JOIN",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "fetch": "FETCH",
    "sample": "TABLESAMPLE",
    "kind": "SELECT AS",
    "into": "INTO",
    "locks": "FOR UPDATE",
}


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """
    A query known to be row-level.

    :param text: as the user wrote it, without a closing semicolon.
    :param alias: the name by which the query calls the upstream relation.
    :param words: names in it that may be columns, lower-cased; a superset of the columns that it uses.
    :param has_star: it selects ``*``, so it uses every column there is.
    """

    text: str
    alias: str
    words: frozenset[str]
    has_star: bool
    _before_from: int
    _relation_start: int
    _relation_end: int
    _named: bool
    _columns: tuple[tuple[str, str], ...]
    _star_without: frozenset[str] | None
    _possible_functions: frozenset[str]
    _selected_words: frozenset[str]

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return those of the upstream's columns that the query may use, in the upstream's order."""
        if self.has_star:
            return tuple(available)
        return tuple(column for column in available if column.lower() in self.words)

    def refuse_functions_without_parentheses(self, available: Sequence[str]) -> None:
        """
        Refuse a name such as ``user``, which Spark reads as a function where no column has that name.

        :param available: the upstream's columns.
        :raises InvalidJobError: if such a name would not give the same value every time.
        """
        for name in sorted(self._possible_functions - {column.lower() for column in available}):
            raise _unsupported(f"{name}, which does not give the same value every time,")

    def output_of_key(self, column: str) -> str | None:
        """
        Return the name under which the view carries a key column unchanged.

        :returns: the output column's name, or ``None`` if the query drops or changes the key column.
        """
        for source, output in self._columns:
            if source.lower() == column.lower():
                return output
        if self._star_without is not None and column.lower() not in self._star_without:
            return column
        return None

    def written_names(self, upstream_names: Collection[str]) -> frozenset[str]:
        """
        Return every name that a column of the view may have because somebody wrote it, lower-cased.

        :param upstream_names: names that a star may stand for.
        """
        return self._selected_words | {name.lower() for name in upstream_names if self.has_star}

    def hidden_keys(self, key: Sequence[str], upstream_names: Collection[str] = ()) -> dict[str, str]:
        """
        Return, for the key columns that the view does not carry, the hidden column that keeps each.

        :param key: the upstream's key columns.
        :param upstream_names: names that a star may stand for, which are the view's then.
        """
        taken = self.written_names(upstream_names)
        return {column: _hidden(column, taken) for column in key if self.output_of_key(column) is None}

    def key_outputs(self, key: Sequence[str], upstream_names: Collection[str] = ()) -> tuple[str, ...]:
        """Return the view's column for each key column, hidden or not; the parameters are those of hidden columns."""
        hidden = self.hidden_keys(key, upstream_names)
        return tuple(self.output_of_key(column) or hidden[column] for column in key)

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str] = ()) -> str:
        """
        Return the query over another relation, with the hidden key columns added.

        :param relation: name of the relation to read instead of ``upstream``; quoted here.
        :param key: the upstream's key columns.
        :param upstream_names: names that a star may stand for.
        """
        hidden = "".join(
            f", {quote(self.alias)}.{quote(column)} AS {quote(output)}"
            for column, output in self.hidden_keys(key, upstream_names).items()
        )
        alias = "" if self._named else f" AS {quote(self.alias)}"
        head, tail = self.text[: self._before_from], self.text[self._relation_end :]
        between = self.text[self._before_from : self._relation_start]
        return f"{head.rstrip()}\n{hidden} {between}{quote(relation)}{alias}{tail}"


def quote(identifier: str) -> str:
    """Quote an identifier for Spark SQL."""
    return "`" + identifier.replace("`", "``") + "`"


@lru_cache(maxsize=256)
def check_query(text: str) -> CheckedQuery:
    """
    Check that a query is row-level over ``upstream``.

    :raises InvalidJobError: with the construct that is not allowed, or the place of a syntax error.
    """
    text = text.strip().removesuffix(";").rstrip()
    try:
        tokens = sqlglot.tokenize(text, read="spark")
        statements = sqlglot.parse(text, read="spark")
    except SqlglotError as error:
        raise InvalidJobError(f"the query has a syntax error: {_one_line(error)}") from None
    except (AttributeError, AssertionError, RecursionError, TypeError, ValueError):
        # The parser's own failures at text that is no plain SELECT.
        raise InvalidJobError("the query has a syntax error: it cannot be parsed") from None
    statements = [statement for statement in statements if not isinstance(statement, exp.Semicolon)]
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        raise InvalidJobError(f"the query must be one SELECT … FROM {RELATION} [WHERE …]")
    select = statements[0]
    _refuse_nesting(select, tokens)
    table = _only_relation(select)
    _refuse_clauses(select)
    _refuse_expressions(select)
    refuse_other_functions(tokens)
    from_token, relation_token = _from_tokens(tokens)
    columns, star_without = _outputs(select, table.alias_or_name)
    return CheckedQuery(
        text=text,
        alias=table.alias_or_name,
        words=possible_columns(tokens, select, table.alias_or_name),
        has_star=any(True for _ in select.find_all(exp.Star)),
        _before_from=from_token.start,
        _relation_start=relation_token.start,
        _relation_end=relation_token.end + 1,
        _named=bool(table.alias),
        _columns=columns,
        _star_without=star_without,
        _possible_functions=frozenset(
            name.lower()
            for name in (
                *(column.name for column in select.find_all(exp.Column) if not column.table),
                *identifier_clauses(tokens),
            )
            if name.lower() in NON_DETERMINISTIC
        ),
        # Texts, too: Spark calls a column of a plain text by the text.
        _selected_words=frozenset(token.text.lower() for token in tokens if token.end < from_token.start),
    )


def _hidden(key: str, taken: Collection[str]) -> str:
    name = HIDDEN_KEY_PREFIX + key
    while name.lower() in taken:
        name = f"_{name}"
    return name


def _refuse_nesting(select: exp.Select, tokens: Sequence[Token]) -> None:
    nested = None
    if any(token.token_type == TokenType.PIPE_GT for token in tokens):
        nested = "the pipe syntax (|>)"
    elif select.args.get("with_"):
        nested = "WITH"
    elif isinstance(select.args["from_"].this if select.args.get("from_") else None, exp.Subquery):
        nested = "subqueries in FROM"
    if nested is not None:
        raise InvalidJobError(
            f"the query uses {nested} but must be row-level, and one SELECT expressions FROM {RELATION} [WHERE "
            "condition]; write the inner expressions in place of their names, and join the conditions with AND"
        )


def _only_relation(select: exp.Select) -> exp.Table:
    tables = list(select.find_all(exp.Table))
    if len(tables) != 1 or select.args.get("joins"):
        raise _unsupported("joins and subqueries" if len(tables) > 1 else f"a query without FROM {RELATION}")
    table = tables[0]
    if table.name.lower() != RELATION or table.args.get("db") or not isinstance(table.this, exp.Identifier):
        raise InvalidJobError(f"the query reads {table.sql()!r}; it may read {RELATION} only")
    extras = {name for name, value in table.args.items() if value and name not in {"this", "alias"}}
    alias = table.args.get("alias")
    if extras or (alias is not None and alias.args.get("columns")):
        raise InvalidJobError(f"the query must read plain {RELATION}, without {', '.join(sorted(extras)) or 'columns'}")
    return table


def _refuse_clauses(select: exp.Select) -> None:
    for argument, clause in _CLAUSES.items():
        if select.args.get(argument):
            raise _unsupported(clause)


def _refuse_expressions(select: exp.Select) -> None:
    for node in select.walk():
        if isinstance(node, exp.Exists) and not isinstance(node.this, exp.Query):
            continue  # exists(array, lambda) is a function of one row
        for kinds, what in _UNSUPPORTED:
            if node is not select and isinstance(node, kinds):
                raise _unsupported(what)
        if isinstance(node, exp.Column) and "_metadata" in {part.name.lower() for part in node.parts}:
            raise _unsupported("_metadata, which names files instead of rows,")
        if _is_moving(node):
            raise _unsupported(f"the text {node.this!r}, which Spark reads as a date that is not the same every time,")
        if isinstance(node, exp.Any) and not isinstance(node.parent, exp.Predicate):
            raise _unsupported("the aggregate any")
        if isinstance(node, exp.Func):
            _refuse_function(node)


def is_moving_text(text: str) -> bool:
    """Tell whether Spark reads a text as another date or timestamp each day."""
    return _MOVING.match(text) is not None


def _is_moving(node: exp.Expr) -> bool:
    """Tell whether a text becomes a date that is not the same every time; where Spark casts it, Spark tells."""
    if not (isinstance(node, exp.Literal) and node.is_string and is_moving_text(node.this)):
        return False
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    is_cast = isinstance(parent, exp.Cast) and parent.to.this in exp.DataType.TEMPORAL_TYPES
    return is_cast or isinstance(parent, exp.TsOrDsToDate)


def _refuse_function(function: exp.Func) -> None:
    names = _names(function)
    for name in sorted(names):
        if name in NON_DETERMINISTIC or (name == "unix_timestamp" and not list(function.iter_expressions())):
            raise _unsupported(f"{name}, which does not give the same value every time,")
        if name in GENERATORS:
            raise _unsupported(f"{name}, which makes several rows of one,")
        if name in AGGREGATES or isinstance(function, exp.AggFunc):
            raise _unsupported(f"the aggregate {name}")


def _names(function: exp.Func) -> set[str]:
    """Return every name of a function: the tree knows one by what it means, the user by what was written."""
    if isinstance(function, exp.Anonymous):
        return {function.name.lower()}
    written = function.meta.get("name")
    return {name.lower() for name in (*function.sql_names(), *([written] if written else []))}


def _from_tokens(tokens: Sequence[Token]) -> tuple[Token, Token]:
    """Find the outermost FROM and the relation after it."""
    depth = 0
    for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
        # IS DISTINCT FROM is a comparison, and after a dot any word is a name.
        elif (
            token.token_type == TokenType.FROM
            and depth == 0
            and previous.token_type not in {TokenType.DISTINCT, TokenType.DOT}
        ):
            return token, following
    raise InvalidJobError(f"the query has no FROM {RELATION} that could be found; write it as a plain clause")


def _outputs(select: exp.Select, alias: str) -> tuple[tuple[tuple[str, str], ...], frozenset[str] | None]:
    """Return (source column, output name) of the plain columns, and what a star leaves out; None without a star."""
    columns: list[tuple[str, str]] = []
    without: set[str] = set()
    carries_all = False
    for projection in select.expressions:
        source = projection.unalias()
        star = source if isinstance(source, exp.Star) else source.this if isinstance(source, exp.Column) else None
        if isinstance(star, exp.Star):
            if isinstance(source, exp.Column) and source.table.lower() != alias.lower():
                continue  # the fields of a struct, which carry no key
            carries_all = True
            for excluded in star.args.get("except_") or star.args.get("except") or ():
                without.add(excluded.name.lower())
            for replaced in star.args.get("replace") or ():
                without.add(replaced.alias.lower())
        elif isinstance(source, exp.Column) and source.table.lower() in {"", alias.lower()} and not source.db:
            columns.append((source.name, projection.alias_or_name))
    return tuple(columns), frozenset(without) if carries_all else None


def _unsupported(what: str) -> InvalidJobError:
    return InvalidJobError(
        f"the query uses {what} but must be row-level: SELECT expressions FROM {RELATION} [WHERE condition], with "
        "deterministic functions of one row"
    )


def _one_line(error: Exception) -> str:
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return first.replace("\x1b[4m", "").replace("\x1b[0m", "")
