"""The upstream's columns from which each column of a view is computed, as far as the query's text shows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlglot import exp
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.queries import ColumnOrigin, QueryLineage

_UNNAMED = "__level"
"""The name of a level's relation if the query gives it none."""


def query_lineage(levels: Sequence[Level], available: Sequence[str], hidden_keys: Mapping[str, str]) -> QueryLineage:
    """
    Return the lineage of a view from its query.

    :param levels: the query's levels.
    :param available: the upstream's columns.
    :param hidden_keys: the upstream's key columns that the query drops, each with the view's hidden column for it.
    """
    root = _qualified(levels, available)
    filters = ((scope, scope.expression.args.get("where")) for scope in root.traverse())
    filtered_by = {column for scope, where in filters if where is not None for column in _origin(where, scope)[0]}
    # sqlglot returns names in lower case.
    written = [*available, *(found.alias_or_name for level in levels for found in level.select.selects)]
    names = {name.lower(): name for name in written}
    known: dict[str, ColumnOrigin] = {}
    for projection in _selects(root):
        inputs, unchanged = _origin(projection, root)
        known[names.get(projection.alias, projection.alias)] = ColumnOrigin(_in_order(inputs, available), unchanged)
    for column, hidden in hidden_keys.items():
        known[hidden] = ColumnOrigin((column,), unchanged=True)
    return QueryLineage(known, _in_order(filtered_by, available))


def _qualified(levels: Sequence[Level], available: Sequence[str]) -> Scope:
    """Return a query's levels as one tree, with qualified columns and without stars; only for analysis."""
    tree: exp.Expr = exp.Table(this=exp.to_identifier(RELATION))
    for level in levels:
        select = level.select.copy()
        select.set("expressions", [found for found in select.selects if _has_known_name(found, level.alias)])
        for function in list(select.find_all(exp.Anonymous)):
            if function.name.lower() == "identifier" and function.expressions:
                function.replace(exp.paren(exp.to_column(function.expressions[0].name, dialect="spark")))
        tree = exp.Subquery(this=tree) if isinstance(tree, exp.Select) else tree
        select.from_(exp.alias_(tree, level.alias or _UNNAMED, table=True), copy=False)
        tree = select
    schema: dict[str, object] = {RELATION: dict.fromkeys(available, "string")}
    qualified = qualify(
        tree,
        "spark",
        schema=schema,
        allow_partial_qualification=True,
        validate_qualify_columns=False,
        quote_identifiers=False,
    )
    return traverse_scope(qualified)[-1]


def _has_known_name(projection: exp.Expr, alias: str) -> bool:
    """Return whether the text shows a projection's name; only Spark knows the names of a struct's fields."""
    if projection.is_star:
        return not isinstance(projection, exp.Column) or projection.table.lower() == alias.lower()
    named = projection.this if isinstance(projection, exp.Cast) else projection
    return isinstance(named, exp.Alias | exp.Column | exp.Dot)


def _origin(expression: exp.Expr, scope: Scope) -> tuple[set[str], bool]:
    """Return the upstream's columns that an expression uses, in lower case, and whether it is one of them unchanged."""
    inputs: set[str] = set()
    unchanged = False
    for column in expression.find_all(exp.Column):
        source = scope.sources.get(column.table)
        found, same = {column.name}, True
        if isinstance(source, Scope):
            projection = next((found for found in _selects(source) if found.alias == column.name), exp.null())
            found, same = _origin(projection, source)
        if source is not None:
            inputs |= found
            unchanged = same and expression.unalias() is column
    return inputs, unchanged


def _selects(scope: Scope) -> list[exp.Expr]:
    return scope.expression.expressions


def _in_order(columns: Collection[str], available: Sequence[str]) -> tuple[str, ...]:
    return tuple(column for column in available if column.lower() in columns)
