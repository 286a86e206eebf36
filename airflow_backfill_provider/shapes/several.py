"""
The seam of shapes that read several upstreams.

A query's text alone tells which tables it reads. Whose column a name is, only their columns tell, and how rows are
joined depends on their keys. So a query is parsed when a job is defined, and *resolved* over its tables when the job is
created, and for each epoch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from airflow_backfill_provider.shapes.queries import ShapedQuery
from airflow_backfill_provider.shapes.spread import Branch, MostRows

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
    from airflow_backfill_provider.core.job.definition import BackfillJob


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTable:
    """
    An upstream, as a query sees it.

    :param key: the columns of its key.
    :param types: its columns in order, with their types as Delta writes them: all of them while a job is created, and
        those that the job uses afterwards.
    :param required: the columns that are never null. An epoch refuses a table that allows nulls in one of them by then.
    """

    key: tuple[str, ...]
    types: Mapping[str, str] = field(default_factory=dict)
    required: Collection[str] = frozenset()


Tables = Mapping[str, QueryTable]
"""The upstreams of a job by their names in the query; the one that leads is the first."""


class QueryOverSeveral(ShapedQuery):
    """
    A query over the tables of a job with ``upstreams``; pure, like every parsed query.

    Only :attr:`relations` is asked before :meth:`resolved`.
    """

    @property
    @abstractmethod
    def relations(self) -> tuple[str, ...]:
        """The names of the upstreams that it reads, as it writes each first; the first one leads."""

    @abstractmethod
    def resolved(self, tables: Tables) -> Self:
        """
        Return the query resolved over its tables.

        :raises InvalidJobError: if a name is ambiguous, or rows cannot be told apart.
        """

    @abstractmethod
    def used_columns(self) -> Mapping[str, Sequence[str]]:
        """Return the columns of each upstream that an epoch reads, its key among them or not."""

    @abstractmethod
    def images(self) -> Mapping[str, Sequence[str]]:
        """
        Return the columns that both images of a change are needed of, by upstream.

        The writer gets the images of these upstreams (``Changes.images``). The one that leads is among them only if
        another part of the query reads it, too.
        """

    @property
    def read_whole(self) -> tuple[str, ...]:
        """
        The upstreams that are read whole: all but the one that leads.

        That one is among them if the query reads it elsewhere, too. There it has all of its rows, also those that
        history was not read up to yet, and those outside of the job's restriction.
        """
        return self.relations[1:]

    @property
    def further(self) -> tuple[str, ...]:
        """The upstreams that lead further branches, beside the one that leads; see :attr:`ShapedQuery.leads`."""
        return self.leads[1:]

    @property
    def keyed(self) -> Collection[str]:
        """The upstreams whose keys the view relies on, of those that are read whole: each key must be there once."""
        return frozenset()

    @abstractmethod
    def text_over(self, lead: str, others: Mapping[str, str]) -> str:
        """
        Return the SQL of the view's rows over other relations with the used columns; the user's text is kept.

        :param lead: the relation to read in place of the upstream that leads.
        :param others: the relations to read in place of those that are read whole, by their names, and in place of
            those that lead further branches, by :func:`leading`.
        """

    def branches(self, rows: Mapping[str, int], most: MostRows) -> Sequence[Branch]:
        """
        Return the parts of the query, and what a changed row touches in each; none, the default, if that is unknown.

        :param rows: the rows of each upstream.
        :param most: counts the most frequent value of columns.
        """
        del rows, most
        return ()

    def affected_by(self, rows: Mapping[str, int]) -> Mapping[str, float]:
        """
        Return how many rows of leads a changed row of an upstream affects, on average; by default, that is unknown.

        :param rows: the rows of each upstream.
        """
        del rows
        return {}

    def columns_of(self, available: Sequence[str]) -> tuple[str, ...]:
        """Return all columns of the upstream that leads: before the query is resolved, it may use any."""
        return tuple(available)

    def render(self, relation: str, key: Sequence[str], upstream_names: Collection[str]) -> str:
        """Refuse: a query over several upstreams is rendered by :meth:`text_over`."""
        del key, upstream_names
        raise TypeError(f"a query over {', '.join(self.relations)} cannot read {relation} alone")


def leading(name: str) -> str:
    """
    Return what the rows of an upstream are called where it leads a further branch.

    It may be read whole elsewhere, under its own name; no upstream's name has a blank.
    """
    return f"{name} leading"


def tables_of(job: BackfillJob, upstream: ResolvedUpstream) -> Tables:
    """Return the tables that a job's query reads, with the columns that the job uses."""
    resolved: Mapping[str, ResolvedUpstream] = {job.lead_name: upstream, **upstream.others}
    return {
        name: QueryTable(
            key=tuple(column.column for column in job.all_upstreams[name].key),
            types=found.types,
            required=found.required,
        )
        for name, found in resolved.items()
    }


def over_tables(query: ShapedQuery, job: BackfillJob, upstream: ResolvedUpstream) -> ShapedQuery:
    """Return a job's query, resolved over its tables if there are several."""
    return query.resolved(tables_of(job, upstream)) if isinstance(query, QueryOverSeveral) else query
