"""The rows of joins and unions that an epoch groups, on Spark: those that were read, a chunk, and images of changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import ClassVar

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, GroupInput, Images, sampled
from airflow_backfill_provider.shapes.joined.changed_leads import affected_unchanged, changed_leads, read_leads
from airflow_backfill_provider.shapes.joined_groups.joined_rows import JoinedRows
from airflow_backfill_provider.shapes.joined_groups.query import JoinedGroupQuery
from airflow_backfill_provider.shapes.joined_groups.read_units import RowsOfUnits
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.unit_places import AffectedRows, are_all, net_by_unit


class JoinedInput(GroupInput):
    """
    Gives the rows of joins and unions that a view of groups is computed from.

    :param query: the query.
    """

    query: JoinedGroupQuery
    relies_on_key: ClassVar[bool] = True

    def empty(self) -> GroupedRows:
        """Return no rows."""
        context = self.context
        lead = context.job_rows.empty().select(*map(column, context.job_rows.columns))
        return JoinedRows(context, self.query, lead, context.beside_without_rows(), self.names)

    @contextmanager
    def sample(self, rows: DataFrame) -> Iterator[GroupedRows]:
        """Give some rows of each lead as of the job's creation, and the tables that they are joined with as of then."""
        context, begin = self.context, self.context.others_begin
        with ExitStack() as kept:
            lead = kept.enter_context(sampled(rows))
            further = {
                name: kept.enter_context(sampled(found.at(begin[name]))) for name, found in context.further.items()
            }
            # The job's lead may be read elsewhere, too; there it has the same rows.
            others = {name: found.at(begin[name]) if name in begin else lead for name, found in context.others.items()}
            yield self._of({self.query.lead: lead, **further}, others)

    def read_set(self, barrier: Barrier) -> GroupedRows:
        """Return all rows that were read before an epoch: leads and the others, as of the ends of the windows."""
        rows = self._of(read_leads(self.context, self.query, barrier), self.context.others_at_end(barrier))
        return self._read(rows, barrier)

    def chunk(self, rows: DataFrame, further: Mapping[str, DataFrame], part: int, barrier: Barrier) -> GroupedRows:
        """
        Return rows of leads, and the other tables as of the ends of their windows.

        A lead that is in several units of a chunk is joined once, and may have rows in units of other chunks.
        """
        placed, others = self.context.placed, self.context.others_at_end(barrier)
        if placed is None or placed.units is None or not placed.units.repeats:
            return self._of({self.query.lead: rows, **further}, others)
        leads = rows.dropDuplicates(list(placed.key.names))
        return RowsOfUnits(self._of({self.query.lead: leads}, others), placed, barrier.parts[part].ranges)

    @contextmanager
    def images(self, changes: Changes, barrier: Barrier) -> Iterator[Images]:
        """
        Give what the affected rows of leads were joined to, and what they are joined to now.

        The rows before are joined with the other tables as of the begins of their windows, and never with newer ones.
        A row of a lead that did not change itself is in both, if another table's change affects it. All branches that a
        table leads are computed from the same rows of it, before and after.
        """
        begin, end = self._others(changes, barrier)
        olds, news, reads_all = {}, {}, False
        with self._affected(changes, barrier, end) as leads:
            for name, lead in leads.items():
                old, new = lead.old, lead.new
                if lead.unchanged is not None:
                    old, new, reads_all = old.unionByName(lead.unchanged), new.unionByName(lead.unchanged), True
                olds[name], news[name] = old, new
            before, after = self._read(self._of(olds, begin), barrier), self._read(self._of(news, end), barrier)
            yield Images(before, after, reads_all=reads_all)

    @contextmanager
    def placed_changes(self, changes: Changes, barrier: Barrier) -> Iterator[DataFrame]:
        """
        Give the net changes of the lead's rows by their units.

        :raises TypeError: if history is not read by units.
        """
        if self.context.placed is None:
            raise TypeError("the history of the job is not read by units")
        begin, end = self._others(changes, barrier)
        with self._affected(changes, barrier, end) as leads:
            yield net_by_unit(self.context.placed, leads[self.query.lead], begin, end)

    def _others(self, changes: Changes, barrier: Barrier) -> tuple[Mapping[str, DataFrame], Mapping[str, DataFrame]]:
        """Return the upstreams that are read whole as of the begins of their windows, and as of the ends."""
        end = self.context.others_at_end(barrier)
        return {**end, **self.context.others_at_begin(barrier, changes.images)}, end

    @contextmanager
    def _affected(
        self, changes: Changes, barrier: Barrier, end: Mapping[str, DataFrame]
    ) -> Iterator[Mapping[str, AffectedRows]]:
        """Find the rows of each lead that changes affect, and keep them for the block."""
        with ExitStack() as kept:
            yield {
                name: AffectedRows(
                    old=lead.old,
                    new=lead.new,
                    unchanged=kept.enter_context(affected_unchanged(lead, changes.images, end)),
                )
                for name, lead in changed_leads(self.context, self.query, changes, barrier).items()
            }

    def _read(self, rows: JoinedRows, barrier: Barrier) -> GroupedRows:
        """Return those of joined rows whose units were read before an epoch."""
        placed = self.context.placed
        if placed is None or are_all(placed, barrier.read_before):
            return rows
        return RowsOfUnits(rows, placed, barrier.read_before)

    def _of(self, leads: Mapping[str, DataFrame], others: Mapping[str, DataFrame]) -> JoinedRows:
        """
        Return rows with the used columns alone.

        :param leads: the rows of each upstream that leads branches, by their names.
        :param others: those of the upstreams that are read whole, by their names.
        """
        context = self.context
        further = {name: rows for name, rows in leads.items() if name != self.query.lead}
        lead = leads[self.query.lead].select(*map(column, context.job_rows.columns))
        return JoinedRows(context, self.query, lead, context.beside(others, further), self.names)
