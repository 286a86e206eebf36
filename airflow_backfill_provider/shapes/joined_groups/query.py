"""A query that groups the rows of a join or a union, as a job has it: parsed, and then resolved over the upstreams."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.shapes.group.grouping_query import GroupingQuery
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.units import Units
from airflow_backfill_provider.shapes.joined.over_branches import QueryOverBranches
from airflow_backfill_provider.shapes.joined.parts import Join
from airflow_backfill_provider.shapes.joined.query import JoinedQuery, check_joined_query
from airflow_backfill_provider.shapes.joined.refusals import refused
from airflow_backfill_provider.shapes.joined.resolved import ResolvedQuery
from airflow_backfill_provider.shapes.joined_groups.row_units import JoinedRowUnits
from airflow_backfill_provider.shapes.joined_groups.upkeep import upkeep_over_several
from airflow_backfill_provider.shapes.queries import OF_ONE_RELATION, SUBQUERY, QueryLineage, Upkeep
from airflow_backfill_provider.shapes.several import over_tables

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings

_OF_ROWS = Units(first=0, terms=(), outputs=(), added=())
"""The units of UNION before it is resolved: only its tables tell its columns."""


@dataclass(frozen=True)
class JoinedGroupQuery(GroupingQuery, QueryOverBranches):
    """
    A query that groups the rows of a join or a union, or removes the duplicates of a union.

    :param text: the checked tokens as the user wrote them, without comments and a closing semicolon.
    :param parsed: its parts.
    :param steps: its steps; of a join, the first one is its own SELECT. UNION has none: its units are its rows.
    :param words: all words of the query, lower-cased.
    :param state: the hidden columns that keep the state of a unit: name and SQL over the unit's rows.
    :param lead: the upstream that leads the job; empty before the query is resolved.
    :param found: the query over its upstreams; ``None`` before it is resolved.
    """

    plan_nodes: ClassVar[Collection[str]] = OF_ONE_RELATION | {"Join", "Union", SUBQUERY}

    text: str
    parsed: JoinedQuery
    steps: tuple[Step, ...]
    words: frozenset[str]
    state: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    found: ResolvedQuery | None = None

    def over(self, found: ResolvedQuery, lead: str) -> Self:
        """Return the query resolved over its upstreams."""
        return replace(self, found=found, lead=lead)

    @property
    def is_global(self) -> bool:
        """Whether the query aggregates all rows, so that its view always has exactly one row."""
        return not self.parsed.is_distinct and super().is_global

    @property
    def has_row_units(self) -> bool:
        """
        Whether there are several units, and the join's own SELECT tells those of each row of the lead.

        Steps before it would have to pass a column of the lead on, and a union's branches have several leads.
        """
        base = self.parsed.rows.base
        if not isinstance(base, Join) or base.level.relation is None or self.is_global:
            return False
        return self.units_with(()).first == 0 and not any(source.steps for source in base.sources)

    def row_units(self, settings: JobSettings) -> JoinedRowUnits:
        """Return how the units of each row of the lead are found."""
        query = over_tables(self, settings.definition, settings.upstream)
        if not isinstance(query, JoinedGroupQuery):
            raise TypeError("a query is resolved into one of its own kind")
        held = query.units(settings, by_key=False).order.fields if settings.view_columns else ()
        names = settings.own_columns.numbered("unit", len(held))
        order = KeyOrder(tuple(KeyField(name=name, type=unit.type) for name, unit in zip(names, held, strict=True)))
        upstream_names = settings.upstream.all_names
        # Longer than every name in the query, so that no other relation has a column of this name.
        carried = own_columns(self.words | upstream_names).named("row")
        repeats = bool(query.resolution.trees[0].fan_outs)
        return JoinedRowUnits(query, self.text, order, carried, query.read_whole, upstream_names, repeats)

    def with_state(self, columns: Mapping[str, str]) -> Self:
        """Return the query with hidden columns that keep the state of a unit."""
        return replace(self, state=tuple(columns.items()))

    def units_with(self, upstream_names: Collection[str]) -> Units:
        """
        Return the query's units.

        :param upstream_names: the names that a star may stand for; those of the upstreams, once it is resolved.
        """
        if self.found is not None:
            return self.found.group_units()
        if self.parsed.grouping is None:
            return _OF_ROWS
        return self.parsed.grouping.units(self.text, self.words | {name.lower() for name in upstream_names})

    def unit_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return the lead's columns that the units are divided by, if these alone do, and no join repeats its rows."""
        if self.parsed.is_union:
            return ()
        found = [self.resolution.lead_column(term.meaning) for term in self.units_with(()).terms]
        is_of_lead = self.units_with(()).first == 0 and None not in found and not self.resolution.trees[0].fan_outs
        return tuple(name for name in available if name in found) if is_of_lead else ()

    def upkeep(self, *, created: bool) -> Upkeep:
        """Return the technique, and its reason as far as the query's text tells it."""
        return upkeep_over_several(super().upkeep(created=created), is_global=self.is_global)

    def old_columns(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return all columns: the writer joins and groups the lead's rows as they were before their changes."""
        return tuple(available)

    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """Return the query over other relations, with the hidden columns of units and of their state added."""
        return self.resolution.render(self.names(lead, others), self.state)

    def render_units(self, lead: str, others: Mapping[str, str], names: Sequence[str], *, carried: str = "") -> str:
        """
        Return the query of the units of joined rows, one for each row that is grouped.

        :param lead: name of the relation to read in place of the upstream that leads.
        :param others: the relations to read in place of those that are read whole, by their names.
        :param names: the names of the unit columns.
        :param carried: the name of a column of the lead that is passed on beside them; empty for none.
        """
        return self.resolution.render_units(self.names(lead, others), names, carried)

    def render_slice(self, lead: str, others: Mapping[str, str], touched: str, names: Sequence[str]) -> str:
        """
        Return the query over the joined rows of some units, with the hidden columns added.

        :param touched: name of the relation with the units.
        :param names: the names of its columns.
        """
        return self.resolution.render_slice(self.names(lead, others), touched, names, self.state)

    def render_rows(self, lead: str, others: Mapping[str, str], selected: str) -> str:
        """
        Return the query of the joined rows that the first grouping step groups.

        :param selected: the list of columns, over the relations that the step reads.
        """
        return self.resolution.render_rows(self.names(lead, others), selected)

    def lineage(self, columns: Sequence[str], key: Sequence[str], upstream_names: Collection[str]) -> QueryLineage:
        """Return the origins of the columns that the query selects."""
        del columns, key, upstream_names
        return self.selected_lineage


@lru_cache(maxsize=256)
def check_joined_group_query(text: str) -> JoinedGroupQuery:
    """
    Check that a query groups the rows of a join or a union.

    :raises InvalidJobError: with the construct that is not allowed and what to write instead, or with the position of a
        syntax error.
    """
    parsed = check_joined_query(text)
    if parsed.is_distinct:
        return JoinedGroupQuery(parsed.text, parsed, (), parsed.words)
    if parsed.grouping is None:
        raise refused("no group and no window", "write GROUP BY, DISTINCT, or a window with PARTITION BY")
    return JoinedGroupQuery(parsed.text, parsed, parsed.grouping.steps, parsed.words)
