"""Refuses names that Spark would not find, or would find twice, and names that it may read as a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from airflow_backfill_provider.shapes.expressions import refuse_functions_without_parentheses
from airflow_backfill_provider.shapes.functions import NON_DETERMINISTIC
from airflow_backfill_provider.shapes.joined.outputs import outputs_of
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Union
from airflow_backfill_provider.shapes.joined.refusals import unsupported
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Scope, block_scopes, visible_roles


def require_names(rows: Rows, relations: Mapping[str, Relation]) -> None:
    """
    Refuse ambiguous names, and functions without parentheses.

    Names of missing columns are left to Spark, which refuses them when it analyses the query.

    :param relations: the upstreams by name in lower case.
    :raises InvalidJobError: with the name.
    """
    if isinstance(rows.base, Union):
        for branch in rows.base.branches:
            require_names(branch, relations)
    elif isinstance(rows.base, Join):
        _of_join(rows.base, relations)
    for number, level in enumerate(rows.levels):
        before = outputs_of(Rows(rows.base, rows.levels[:number]), relations)
        if before is not None:
            refuse_functions_without_parentheses((level,), [output.name for output in before], unsupported)


def _of_join(join: Join, relations: Mapping[str, Relation]) -> None:
    outer, inners = block_scopes(join, relations)
    visible = Scope(tuple(visible_roles(outer.roles)), outer.merged)
    _require(join.level.select, visible)
    for existence, scope in zip(join.existences, inners, strict=True):
        _require(existence.select, scope)
    for scope in (outer, *inners):
        for role in scope.roles:
            refuse_functions_without_parentheses(role.source.steps, role.relation.names, unsupported)
            if role.source.on is not None:
                for node in role.source.on.find_all(exp.Column):
                    scope.on(role).column(node)


def _require(select: exp.Select, scope: Scope) -> None:
    """Refuse names outside of ON that are ambiguous, or a function."""
    for node in _columns(select):
        found = scope.column(node)
        if found is None and not node.table and node.name.lower() in NON_DETERMINISTIC:
            raise unsupported(f"{node.name.lower()}, which is not deterministic,")


def _columns(select: exp.Select) -> Iterator[exp.Column]:
    aliases = {projection.alias.lower() for projection in select.expressions if projection.alias}
    for node in select.find_all(exp.Column):
        # There, an alias of the list of columns comes before a column.
        is_alias = node.find_ancestor(exp.Having, exp.Qualify) and not node.table and node.name.lower() in aliases
        if not (node.is_star or is_alias or node.find_ancestor(exp.Join, exp.Star)):
            yield node
