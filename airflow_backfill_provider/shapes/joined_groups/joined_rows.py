"""The joined rows that a query groups, on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import Changes, WriterContext
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, GroupInput, Images, run
from airflow_backfill_provider.shapes.joined.affected_rows import affected_unchanged
from airflow_backfill_provider.shapes.joined_groups.query import JoinedGroupQuery
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.predicates import without_pushdown
from airflow_backfill_provider.spark.query import require_checked

_LEAD, _TOUCHED = "backfill_lead__", "backfill_units__"


@dataclass(frozen=True)
class JoinedRows(GroupedRows):
    """
    Rows of a lead, and of the tables that it is joined with.

    :param lead: the rows of the lead, with the used columns.
    :param others: the rows of the upstreams that are read whole, by their names.
    :param names: the names of the unit columns.
    """

    context: WriterContext
    query: JoinedGroupQuery
    lead: DataFrame
    others: Mapping[str, DataFrame]
    names: tuple[str, ...]

    def groups(self) -> DataFrame:
        """Return the view's rows."""
        return self.context.run(self.lead, self.others)

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
    Gives the joined rows that a view of groups is computed from.

    :param query: the query.
    """

    query: JoinedGroupQuery
    relies_on_key: ClassVar[bool] = True

    def empty(self) -> GroupedRows:
        """Return no rows."""
        return self._of(self.context.job_rows.empty(), self.context.others_without_rows())

    def at_creation(self, rows: DataFrame) -> GroupedRows:
        """Return rows of the lead as of the job's creation, and the other tables as of then."""
        begin = self.context.others_begin
        # A lead that is read elsewhere, too, is joined with the same rows of itself.
        others = {name: found.at(begin[name]) if name in begin else rows for name, found in self._others.items()}
        return self._of(rows, others)

    def read_set(self, barrier: Barrier) -> GroupedRows:
        """Return all rows of the lead that were read before an epoch, and the others, as of the ends of the windows."""
        return self.chunk(self.context.read_set(barrier, with_chunk=False), barrier)

    def chunk(self, rows: DataFrame, barrier: Barrier) -> GroupedRows:
        """Return rows of the lead, and the other tables as of the ends of their windows."""
        return self._of(rows, self.context.others_at_end(barrier))

    @contextmanager
    def images(self, changes: Changes, barrier: Barrier) -> Iterator[Images]:
        """
        Give what the affected rows of the lead were joined to, and what they are joined to now.

        The rows before are joined with the other tables as of the begins of their windows, and never with newer ones.
        A row of the lead that did not change itself is in both, if another table's change affects it.
        """
        context = self.context
        end = context.others_at_end(barrier)
        begin = {**end, **context.others_at_begin(barrier, changes.images)}
        (plan,) = self.query.resolution.affected
        old, new = context.old(changes), context.new(changes)
        with affected_unchanged(context, plan, changes, end, barrier) as unchanged:
            if unchanged is not None:
                old, new = old.unionByName(unchanged), new.unionByName(unchanged)
            yield Images(self._of(old, begin), self._of(new, end), reads_all=unchanged is not None)

    @property
    def _others(self) -> Mapping[str, JobRows]:
        return self.context.others

    def _of(self, lead: DataFrame, others: Mapping[str, DataFrame]) -> JoinedRows:
        """Return rows with the used columns alone."""
        used = without_pushdown(lead).select(*map(column, self.context.job_rows.columns))
        of_others = {name: rows.select(*map(column, self._others[name].columns)) for name, rows in others.items()}
        return JoinedRows(self.context, self.query, used, of_others, self.names)
