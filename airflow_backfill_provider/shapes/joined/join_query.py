"""A query that joins a lead with dimensions, as a job has it: parsed, and then resolved over the job's upstreams."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.refresh_cost import JOIN
from airflow_backfill_provider.shapes.joined.over_branches import QueryOverBranches, named
from airflow_backfill_provider.shapes.joined.query import JoinedQuery, check_joined_query
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery
from airflow_backfill_provider.shapes.joined.tree import JoinTree
from airflow_backfill_provider.shapes.joined.units import KeyColumn, UnitColumn
from airflow_backfill_provider.shapes.queries import OF_ROWS, SUBQUERY, ColumnOrigin, QueryLineage, Units, Upkeep

_UPKEEP = Upkeep(
    technique="unit",
    reason="the rows of the lead that a change of any table affects are joined anew",
    reads="the changes; the tables that are joined; and all rows of the lead, if another table has changes",
    writes="the rows of affected leads that differ, in one commit",
    cost=JOIN,
)


@dataclass(frozen=True)
class JoinQuery(QueryOverBranches):
    """
    A query that joins a lead with dimensions.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param parsed: its parts.
    :param lead: the upstream that leads; empty before the query is resolved.
    :param found: the query over its upstreams; ``None`` before it is resolved.
    """

    plan_nodes: ClassVar[Collection[str]] = OF_ROWS | {"Join", SUBQUERY}

    text: str
    parsed: JoinedQuery
    lead: str = ""
    found: ResolvedQuery | None = None

    def over(self, found: ResolvedQuery, lead: str) -> Self:
        """Return the query resolved over its upstreams."""
        return replace(self, found=found, lead=lead)

    @property
    def tree(self) -> JoinTree:
        """The tree of its joins."""
        return self.resolution.trees[0]

    @property
    def unit_outputs(self) -> tuple[str, ...]:
        """The view's columns that hold the key of the lead, hidden or not, in the order of the key."""
        return self.row_columns.unit

    def units(self, settings: JobSettings, *, by_key: bool) -> Units:
        """Return the lead's key, and the columns from which the vnode of a lead is computed."""
        order = settings.key_order
        hashed = order.names if by_key else tuple(settings.definition.upstream.distribution_key)
        return Units(
            order=order,
            outputs=self.unit_outputs,
            hashed=hashed,
            hashed_outputs=tuple(self._outputs_of_lead[name] for name in hashed),
        )

    def holds_distribution_key(self, settings: JobSettings) -> bool:
        """Return whether the view holds the lead's distribution key, in hidden columns or others."""
        return set(settings.definition.upstream.distribution_key) <= self._outputs_of_lead.keys()

    def upkeep(self, *, created: bool) -> Upkeep:
        """Return how a finished view is kept up to date."""
        del created
        return _UPKEEP

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """Return the origins of the view's columns, hidden ones included."""
        del columns, key, upstream_names
        selected = self.selected_lineage
        relations = {node.role: node.relation for node in self.tree.nodes}
        hidden = {
            column.output: ColumnOrigin(named([(relations[source.role], source.column)]), unchanged=True)
            for column, source in _held(self.row_columns.columns)
            if column.is_hidden
        }
        return QueryLineage({**selected.columns, **hidden}, selected.filtered_by)

    @property
    def _outputs_of_lead(self) -> Mapping[str, str]:
        """The view's columns that hold a column of the lead unchanged, by the lead's name for it."""
        lead = self.tree.lead.role
        key = {source.column: column.output for column, source in _held(self.row_columns.columns) if column.of_unit}
        selected = {
            name: output.name
            for output in self.resolution.outputs or ()
            for name in self.resolution.columns[self.tree.lead.relation]
            if output.name and output.holds(lead, name)
        }
        return {**selected, **key}


@lru_cache(maxsize=256)
def check_join_query(text: str) -> JoinQuery:
    """
    Check that a query joins relations.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    parsed = check_joined_query(text)
    if parsed.is_union or parsed.grouping is not None:
        raise InvalidJobError("query: it unites or groups the rows of joins")
    return JoinQuery(parsed.text, parsed)


def _held(columns: Iterable[UnitColumn]) -> Iterator[tuple[UnitColumn, KeyColumn]]:
    """Yield columns of the view with the columns of keys that they hold."""
    for column in columns:
        if (source := column.sources[0]) is not None:
            yield column, source
