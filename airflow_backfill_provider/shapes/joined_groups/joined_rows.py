"""The rows of joins and unions that a query groups, on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, GroupInput, Images, run, sampled
from airflow_backfill_provider.shapes.joined.changed_leads import affected_unchanged, changed_leads, read_leads
from airflow_backfill_provider.shapes.joined_groups.query import JoinedGroupQuery
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.predicates import without_pushdown
from airflow_backfill_provider.spark.query import require_checked, run_query

_LEAD, _TOUCHED = "backfill_lead__", "backfill_units__"


@dataclass(frozen=True)
class JoinedRows(GroupedRows):
    """
    Rows of the leads of branches, and of the tables that these are joined with.

    :param lead: the rows of the upstream that leads the job, with the used columns.
    :param others: those of all others, by the names in :attr:`JobQuery.others`.
    :param names: the names of the unit columns.
    """

    context: WriterContext
    query: JoinedGroupQuery
    lead: DataFrame
    others: Mapping[str, DataFrame]
    names: tuple[str, ...]

    def groups(self) -> DataFrame:
        """Return the view's rows."""
        return run_query(self.context.spark, self.context.query, self.lead, self.others)

    def units(self) -> DataFrame:
        """Return the unit of each joined row that is grouped; a query with one unit has none here."""
        if self.query.is_global:
            return self.context.spark.createDataFrame([], StructType())
        return run(self.context, self.query.render_units(_LEAD, self._named, self.names), self._relations)

    def groups_of(self, touched: DataFrame) -> DataFrame:
        """Return the view's rows of some units, over the joined rows that belong to these."""
        if self.query.is_global:
            return self.groups()
        require_checked(self.context.spark, self.context.query, self.lead, self.others)
        text = self.query.render_slice(_LEAD, self._named, _TOUCHED, self.names)
        return run(self.context, text, {**self._relations, _TOUCHED: touched})

    def before_grouping(self, selected: str) -> DataFrame:
        """Return columns of the joined rows that the first step that groups reads."""
        return run(self.context, self.query.render_rows(_LEAD, self._named, selected), self._relations)

    @property
    def _named(self) -> dict[str, str]:
        return {name: f"backfill_other_{number}__" for number, name in enumerate(self.others)}

    @property
    def _relations(self) -> dict[str, DataFrame]:
        return {_LEAD: self.lead, **{self._named[name]: rows for name, rows in self.others.items()}}


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
        """Return all rows of leads that were read before an epoch, and the others, as of the ends of the windows."""
        return self._of(read_leads(self.context, self.query, barrier), self.context.others_at_end(barrier))

    def chunk(self, rows: DataFrame, further: Mapping[str, DataFrame], barrier: Barrier) -> GroupedRows:
        """Return rows of leads, and the other tables as of the ends of their windows."""
        return self._of({self.query.lead: rows, **further}, self.context.others_at_end(barrier))

    @contextmanager
    def images(self, changes: Changes, barrier: Barrier) -> Iterator[Images]:
        """
        Give what the affected rows of leads were joined to, and what they are joined to now.

        The rows before are joined with the other tables as of the begins of their windows, and never with newer ones.
        A row of a lead that did not change itself is in both, if another table's change affects it. All branches that a
        table leads are computed from the same rows of it, before and after.
        """
        context = self.context
        end = context.others_at_end(barrier)
        begin = {**end, **context.others_at_begin(barrier, changes.images)}
        olds, news, reads_all = {}, {}, False
        with ExitStack() as kept:
            for name, lead in changed_leads(context, self.query, changes, barrier).items():
                old, new = lead.old, lead.new
                unchanged = kept.enter_context(affected_unchanged(lead, changes.images, end))
                if unchanged is not None:
                    old, new, reads_all = old.unionByName(unchanged), new.unionByName(unchanged), True
                olds[name], news[name] = old, new
            yield Images(self._of(olds, begin), self._of(news, end), reads_all=reads_all)

    def _of(self, leads: Mapping[str, DataFrame], others: Mapping[str, DataFrame]) -> JoinedRows:
        """
        Return rows with the used columns alone.

        :param leads: the rows of each upstream that leads branches, by their names.
        :param others: those of the upstreams that are read whole, by their names.
        """
        context = self.context
        read = {name: without_pushdown(rows) for name, rows in leads.items()}
        lead = read.pop(self.query.lead).select(*map(column, context.job_rows.columns))
        return JoinedRows(context, self.query, lead, context.beside(others, read), self.names)
