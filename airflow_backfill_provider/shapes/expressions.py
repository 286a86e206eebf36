"""What no query may have in its expressions and clauses, whatever its shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import is_relative_date
from airflow_backfill_provider.shapes.functions import NON_DETERMINISTIC, identifier_clauses
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.token_lists import added

Refuse = Callable[[str], InvalidJobError]
"""Returns the error for a construct that a shape does not have."""

CLAUSES: Mapping[str, str] = {
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
"""The clauses that no shape has: sqlglot's name for each, and Spark's."""

_CLAUSE_WORDS = frozenset(
    {TokenType.INTERSECT, TokenType.JOIN, TokenType.PIVOT, TokenType.UNION, TokenType.UNPIVOT, TokenType.USING}
)
"""Words that may stand before a parenthesis in queries over several relations, and may name a function elsewhere."""

_NODES: tuple[tuple[tuple[type, ...], str], ...] = (
    ((exp.Query, exp.Subquery, exp.Exists), "subqueries"),
    ((exp.QueryTransform,), "a script transformation"),
)


def refuse_clauses(select: exp.Query, clauses: Mapping[str, str], refuse: Refuse) -> None:
    """
    Refuse clauses of a step.

    :param clauses: sqlglot's name for each clause, and its name in messages.
    :raises InvalidJobError: with the clause.
    """
    for argument, clause in clauses.items():
        if select.args.get(argument):
            raise refuse(clause)


def refuse_expressions(select: exp.Select, refuse: Refuse) -> None:
    """
    Refuse subqueries, and what :func:`refuse_changing_expressions` does.

    :raises InvalidJobError: with the expression.
    """
    for node in select.walk():
        if isinstance(node, exp.Exists) and not isinstance(node.this, exp.Query):
            continue  # exists(array, lambda) is a function of one row
        for kinds, what in _NODES:
            if node is not select and isinstance(node, kinds):
                raise refuse(what)
    refuse_changing_expressions(select, refuse)


def refuse_changing_expressions(tree: exp.Query, refuse: Refuse) -> None:
    """
    Refuse parameters, the names of files, and texts that are another date each day.

    :raises InvalidJobError: with the expression.
    """
    for node in tree.walk():
        if isinstance(node, exp.Parameter | exp.Placeholder):
            raise refuse("parameters")
        if isinstance(node, exp.Column) and "_metadata" in {part.name.lower() for part in node.parts}:
            raise refuse("_metadata, which names files instead of rows,")
        if _is_moving(node):
            raise refuse(f"the text {node.this!r}, which Spark reads as a date that changes from day to day,")
        if isinstance(node, exp.Func):
            _refuse_changing(node, refuse)


def without_clause_words(tokens: Sequence[Token], trees: Iterable[exp.Query]) -> list[Token]:
    """
    Return tokens in which no word before a parenthesis looks like a function although it begins a clause.

    :param trees: the query's trees, which say what is called.
    """
    called = {name for tree in trees for call in tree.find_all(exp.Func) for name in names_of(call)}

    def plain(token: Token) -> Token:
        is_clause = token.token_type in _CLAUSE_WORDS and token.text.lower() not in called
        return added(token, (TokenType.VAR, "all"))[0] if is_clause else token

    return list(map(plain, tokens))


def refuse_stars_in_expressions(select: exp.Select, refuse: Refuse) -> None:
    """Refuse ``struct(*)`` and the like over another level, because that level may have hidden columns."""
    for star in select.find_all(exp.Star):
        if isinstance(star.parent, exp.Count):
            continue  # count(*) counts rows
        column = star.parent if isinstance(star.parent, exp.Column) else star
        if column.parent is not select:
            raise refuse("* inside an expression over another SELECT; name the columns instead. It")


def refuse_functions_without_parentheses(levels: Iterable[Level], available: Iterable[str], refuse: Refuse) -> None:
    """
    Refuse a name such as ``user``, which Spark reads as a function if no column has that name.

    :param available: the upstream's columns.
    :raises InvalidJobError: if such a function is not deterministic.
    """
    known = frozenset(column.lower() for column in available)
    for level in levels:
        for name in sorted(_functions_without_parentheses(level) - known):
            raise refuse(f"{name}, which is not deterministic,")
        known = level.gives(known)


def names_of(function: exp.Func) -> set[str]:
    """Return every name of a function: those in the tree, and the one in the text."""
    if isinstance(function, exp.Anonymous):
        return {function.name.lower()}
    written = function.meta.get("name")
    return {name.lower() for name in (*function.sql_names(), *([written] if written else []))}


def _refuse_changing(function: exp.Func, refuse: Refuse) -> None:
    for name in sorted(names_of(function)):
        if name in NON_DETERMINISTIC or (name == "unix_timestamp" and not list(function.iter_expressions())):
            raise refuse(f"{name}, which is not deterministic,")


def _functions_without_parentheses(level: Level) -> frozenset[str]:
    names = [
        *(column.name for column in level.select.find_all(exp.Column) if not column.table),
        *identifier_clauses(level.tokens),
    ]
    return NON_DETERMINISTIC.intersection(name.lower() for name in names)


def _is_moving(node: exp.Expr) -> bool:
    """Return whether the query casts a text such as ``today`` to a date; implicit casts are checked on Spark."""
    if not (isinstance(node, exp.Literal) and node.is_string and is_relative_date(node.this)):
        return False
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    is_cast = isinstance(parent, exp.Cast) and parent.to.this in exp.DataType.TEMPORAL_TYPES
    return is_cast or isinstance(parent, exp.TsOrDsToDate)
