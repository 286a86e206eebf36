"""A job's query with the arguments that rendering it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from airflow_backfill_provider.shapes.queries import ShapedQuery
from airflow_backfill_provider.shapes.several import QueryOverSeveral, leading, over_tables

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
    from airflow_backfill_provider.core.job.definition import BackfillJob


@dataclass(frozen=True, slots=True)
class JobQuery:
    """
    A job's query with the arguments that rendering it needs.

    :param read_whole: the upstreams that are read whole, by their names; see :attr:`QueryOverSeveral.read_whole`.
    :param further: the upstreams that lead further branches, by their names.
    """

    query: ShapedQuery
    key: tuple[str, ...]
    upstream_names: frozenset[str]
    read_whole: tuple[str, ...] = ()
    further: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        job: BackfillJob,
        query: ShapedQuery,
        upstream: ResolvedUpstream,
        state_columns: Mapping[str, str] = MappingProxyType({}),
    ) -> JobQuery:
        """
        Return a job's query over its upstream as of the job's creation.

        :param state_columns: as in :meth:`ShapedQuery.with_state`.
        """
        key = tuple(column.column for column in job.upstream.key)
        resolved = over_tables(query.with_state(state_columns), job, upstream)
        if not isinstance(resolved, QueryOverSeveral):
            return cls(resolved, key, upstream.all_names)
        return cls(resolved, key, upstream.all_names, resolved.read_whole, resolved.further)

    @property
    def others(self) -> tuple[str, ...]:
        """What it reads beside the rows of the upstream that leads; see :func:`~.several.leading`."""
        return (*self.read_whole, *map(leading, self.further))

    @property
    def text(self) -> str:
        """The query as the user wrote it, without comments."""
        return self.query.text

    @property
    def plan_nodes(self) -> Collection[str]:
        """The names of the nodes that Spark's plan of the query may have."""
        return self.query.plan_nodes

    @property
    def has_steps(self) -> bool:
        """Whether the query may rename columns in subqueries."""
        return self.query.has_steps

    def over(self, relation: str, others: Mapping[str, str] = MappingProxyType({})) -> str:
        """
        Return the SQL of the view's rows, over relations with the used columns.

        :param relation: the relation to read as the upstream, or as the one that leads.
        :param others: the relations to read as each of :attr:`others`.
        """
        if isinstance(self.query, QueryOverSeveral):
            return self.query.text_over(relation, others)
        return self.query.render(relation, self.key, self.upstream_names)
