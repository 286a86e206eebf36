"""
Where a query of any form reads the upstream, and whether its tree has what no query may have.

A chain of steps is read as in the other shapes (:mod:`~airflow_backfill_provider.shapes.levels`). Other queries, such
as joins of the upstream with itself and unions, are parsed as a whole. Both run as the user's text. What is believed
of the text here, Spark's own plan is checked for before the query runs: it reads nothing but the upstream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.expressions import CLAUSES, refuse_changing_expressions, refuse_clauses
from airflow_backfill_provider.shapes.full.refusals import refused, unsupported
from airflow_backfill_provider.shapes.functions import NON_DETERMINISTIC, identifier_clauses
from airflow_backfill_provider.shapes.query_text import QueryText, one_line
from airflow_backfill_provider.shapes.token_lists import depth_step, type_at

_ALLOWED_CLAUSES = frozenset({"joins", "laterals", "pivots"})
REFUSED_CLAUSES: Mapping[str, str] = {
    argument: clause for argument, clause in CLAUSES.items() if argument not in _ALLOWED_CLAUSES
}
"""The clauses that no query may have: sqlglot's name for each, and Spark's."""

_BEFORE_RELATIONS = frozenset({TokenType.FROM, TokenType.JOIN})
_ONE_QUERY = f"the query must be one SELECT over {RELATION}, or several that a set operation combines"


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One place of a text where the upstream is read.

    :param start: where its name begins.
    :param end: where its name ends.
    :param is_named: whether the query gives it an alias.
    """

    start: int
    end: int
    is_named: bool


@dataclass(frozen=True, slots=True)
class NamedReading(Reading):
    """
    One place of a text where one of several upstreams is read.

    :param name: its name, as the query writes it.
    """

    name: str


def parsed(query: QueryText) -> exp.Query:
    """
    Parse a query over one upstream as a whole.

    :raises InvalidJobError: if it is no single query, or has what no such query may have.
    """
    tree = tree_of(query)
    if any(isinstance(node, exp.Query) and not _is_relation(node, tree) for node in tree.walk()):
        raise unsupported("subqueries in expressions")
    return tree


def tree_of(query: QueryText) -> exp.Query:
    """
    Parse a query as a whole.

    :raises InvalidJobError: if it is no single query, or has what no query may have.
    """
    tokens = list(query.tokens)
    if (
        any(token.token_type == TokenType.SEMICOLON for token in tokens)
        or sum(depth_step(token) for token in tokens) != 0
    ):
        raise InvalidJobError(_ONE_QUERY)
    try:
        trees = sqlglot.Dialect.get_or_raise("spark").parser().parse(tokens, query.text)
    except SqlglotError as error:
        raise InvalidJobError(f"the query has a syntax error: {one_line(error)}") from None
    except (AttributeError, AssertionError, RecursionError, TypeError, ValueError):
        # The parser itself fails like this on text that is no query.
        raise InvalidJobError("the query has a syntax error: it cannot be parsed") from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Query):
        raise InvalidJobError(_ONE_QUERY)
    _require_plain(tree)
    return tree


def readings(query: QueryText, tree: exp.Query) -> tuple[Reading, ...]:
    """
    Return where a query reads the only upstream.

    :raises InvalidJobError: if it reads something else, or in another form than ``FROM upstream``.
    """
    found = named_readings(query, tree)
    if other := next((read.name for read in found if read.name.lower() != RELATION), None):
        raise InvalidJobError(f"the query reads {other!r}; it may read {RELATION} only")
    return tuple(Reading(read.start, read.end, read.is_named) for read in found)


def named_readings(query: QueryText, tree: exp.Query) -> tuple[NamedReading, ...]:
    """
    Return where a query reads which upstreams.

    :raises InvalidJobError: if it reads something else, or in another form than ``FROM name``.
    """
    common = {table.alias.lower() for table in tree.find_all(exp.CTE)}
    if RELATION in common:
        raise unsupported(f"WITH {RELATION}, which hides the upstream,")
    read = [table for table in tree.find_all(exp.Table) if table.name.lower() not in common or table.args.get("db")]
    for table in read:
        _require_plain_table(table)
    if not read:
        raise InvalidJobError(f"the query does not read {RELATION}")
    names = {table.name.lower() for table in read}
    found = tuple(_named_after(query.tokens, names))
    by_place = {table.this.meta.get("start"): bool(table.alias) for table in read}
    if len(found) != len(read) or set(by_place) != {token.start for token in found}:
        raise unsupported(f"{read[0].name} in another place than after FROM and JOIN")
    return tuple(NamedReading(token.start, token.end + 1, by_place[token.start], token.text) for token in found)


def _require_plain_table(table: exp.Table) -> None:
    """Refuse a table that is no plain name."""
    alias = table.args.get("alias")
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        raise InvalidJobError(f"the query reads {table.sql()!r}; it may read {RELATION} only, or names under upstreams")
    if alias is not None and alias.args.get("columns"):
        raise InvalidJobError(f"the query must read plain {table.name}, without columns")
    if table.args.get("sample") or table.args.get("version") or table.args.get("when"):
        raise InvalidJobError(f"the query must read plain {table.name}, without a version and a sample")


def grains(tree: exp.Query) -> int:
    """Return how many lists of ROLLUP, CUBE and GROUPING SETS a query groups by."""
    found = tree.find_all(exp.Rollup, exp.Cube, exp.GroupingSets)
    return sum(isinstance(node.parent, exp.Group | exp.GroupingSets) for node in found)


def _named_after(tokens: Sequence[Token], names: Collection[str]) -> Iterator[Token]:
    """Yield the upstreams' names wherever a relation may stand."""
    for index, token in enumerate(tokens):
        is_relation = type_at(tokens, index - 1) in _BEFORE_RELATIONS
        # IS DISTINCT FROM is a comparison, and after a dot any word is a name.
        is_clause = type_at(tokens, index - 2) not in {TokenType.DISTINCT, TokenType.DOT}
        ends = type_at(tokens, index + 1) not in {TokenType.DOT, TokenType.L_PAREN}
        if token.text.lower() in names and is_relation and is_clause and ends:
            yield token


def _require_plain(tree: exp.Query) -> None:
    """Refuse clauses, and what changes from day to day."""
    for node in tree.walk():
        if isinstance(node, exp.Query):
            refuse_clauses(node, REFUSED_CLAUSES, unsupported)
        if isinstance(node, exp.QueryTransform):
            raise unsupported("a script transformation")
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in NON_DETERMINISTIC:
            raise refused(
                f"{node.name}, which is a function without parentheses unless it is a column",
                "if it is a column, write it with the name of its relation",
            )
    refuse_changing_expressions(tree, unsupported)


def _is_relation(node: exp.Query, tree: exp.Query) -> bool:
    """Return whether a query stands where a relation may: as a whole, in FROM, JOIN, WITH, or in a set operation."""
    parent = node.parent
    while isinstance(parent, exp.Subquery | exp.Paren):
        parent = parent.parent
    return node is tree or parent is None or isinstance(parent, exp.From | exp.Join | exp.CTE | exp.SetOperation)


def refuse_moving_names(tokens: Sequence[Token]) -> None:
    """Refuse names in ``IDENTIFIER('…')`` that Spark may read as a function."""
    for name in identifier_clauses(tokens):
        if name.lower() in NON_DETERMINISTIC:
            raise unsupported(f"{name}, which is not deterministic,")
