"""The leads of a query's branches in an epoch: what changed of each, and which of its rows other changes affect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.joined.affected import AffectedPlan
from airflow_backfill_provider.shapes.joined.affected_rows import leads_of_changes
from airflow_backfill_provider.shapes.joined.over_branches import QueryOverBranches
from airflow_backfill_provider.sources.shared.by_key import column, without_keys
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.kept_changes import kept_rows
from airflow_backfill_provider.spark.net_changes import leaves_something, new_images, old_images

Rows = Mapping[str, DataFrame]
"""Rows of upstreams, by their names."""


@dataclass(frozen=True, slots=True)
class ChangedLead:
    """
    An upstream that leads branches, in an epoch.

    :param rows: its rows.
    :param plans: how changes of other roles lead to it, in each of its branches.
    :param net: its own net changes; ``None`` if it has none. A row that came and went within the window is not among
        them: another row may have had its key all the time.
    :param read: its rows that were read before the epoch, as of the end of its window.
    """

    rows: JobRows
    plans: Sequence[AffectedPlan]
    net: DataFrame | None
    read: DataFrame

    @property
    def old(self) -> DataFrame:
        """The rows that changed themselves, as of the window's begin, of those that were there."""
        return self._none() if self.net is None else old_images(self.rows, self.net)

    @property
    def new(self) -> DataFrame:
        """The rows that changed themselves, as of the window's end, of those that are there."""
        return self._none() if self.net is None else new_images(self.rows, self.net)

    @property
    def keys(self) -> DataFrame:
        """The keys of the rows that changed themselves, those of rows that are gone included."""
        net = self._none() if self.net is None else self.net
        return net.select(*map(column, self.rows.key.names)).distinct()

    def _none(self) -> DataFrame:
        return self.rows.empty().select(*map(column, self.rows.columns))


@dataclass(frozen=True, slots=True)
class AffectedLeads:
    """
    The rows of a lead that changes affect.

    :param keys: their keys, those of rows that are gone included.
    :param rows: the rows as of the window's end, of those that were read, with the used columns.
    :param are_looked_up: whether all rows of the lead were read again to find them.
    """

    keys: DataFrame
    rows: DataFrame
    are_looked_up: bool


def changed_leads(
    context: WriterContext, query: QueryOverBranches, changes: Changes, barrier: Barrier
) -> Mapping[str, ChangedLead]:
    """Return the upstreams that lead branches, by their names; the one that leads the job is the first."""
    read = read_leads(context, query, barrier)
    rows = {query.lead: context.job_rows, **context.further}
    net = {**changes.further, **({query.lead: changes.net} if changes.measured.through else {})}
    return {
        name: ChangedLead(
            rows=lead,
            plans=query.plans(name),
            net=net[name].filter(leaves_something(lead)) if name in net else None,
            read=read[name],
        )
        for name, lead in rows.items()
    }


def read_leads(context: WriterContext, query: QueryOverBranches, barrier: Barrier) -> Rows:
    """Return the rows of each lead that were read before an epoch, as of the end of its window."""
    return {query.lead: context.read_set(barrier, with_chunk=False), **context.further_read_set(barrier)}


@contextmanager
def affected_unchanged(lead: ChangedLead, images: Rows, ends: Rows) -> Iterator[DataFrame | None]:
    """
    Find the rows of a lead that changes of other roles affect, and that did not change themselves.

    They are the same as of both ends of the window, and are kept for the block.

    :param images: the images of the changed rows of the upstreams that are read whole, by their names.
    :param ends: all rows of these as of the ends of their windows.
    :returns: them with the used columns; ``None`` if no other role has changes that lead to the lead.
    """
    rows, names = lead.rows, lead.rows.key.names
    with ExitStack() as kept:
        of_plans = [kept.enter_context(leads_of_changes(plan, images, ends, lead.read)) for plan in lead.plans]
        found = [of_plan.select(*map(column, rows.columns)) for of_plan in of_plans if of_plan is not None]
        if not found:
            yield None
            return
        others = reduce(DataFrame.unionAll, found)
        if len(found) > 1:
            # A row that several branches lead to is there once; its key tells, and its values may not be comparable.
            others = others.dropDuplicates(list(names))
        if lead.net is not None:
            others = without_keys(others, lead.net.select(*map(column, names)), names)
        yield kept_rows(others, kept)


@contextmanager
def affected_leads(lead: ChangedLead, images: Rows, ends: Rows) -> Iterator[AffectedLeads]:
    """Find the rows of a lead that changed themselves, and those that other changes lead to; see above."""
    with affected_unchanged(lead, images, ends) as others:
        if others is None:
            yield AffectedLeads(lead.keys, lead.new, are_looked_up=False)
        else:
            keys = others.select(*map(column, lead.rows.key.names))
            yield AffectedLeads(lead.keys.unionAll(keys), lead.new.unionAll(others), are_looked_up=True)
