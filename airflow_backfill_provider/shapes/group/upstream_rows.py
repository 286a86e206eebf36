"""The rows of one upstream that a query groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.grouped_rows import GroupedRows, GroupInput, Images, run, sampled
from airflow_backfill_provider.shapes.group.query import GroupQuery
from airflow_backfill_provider.shapes.group.row_units import GroupRowUnits
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.query import require_checked, run_query

_ROWS, _TOUCHED = "backfill_rows__", "backfill_units__"


@dataclass(frozen=True)
class UpstreamRows(GroupedRows):
    """
    Rows of one upstream.

    :param rows: the rows. An old image has the columns of the query, and not the key.
    :param names: the names of the unit columns.
    """

    context: WriterContext
    query: GroupQuery
    rows: DataFrame
    names: tuple[str, ...]

    def groups(self) -> DataFrame:
        """Return the view's rows."""
        return self.context.run(self.rows)

    def units(self) -> DataFrame:
        """Return the unit of each row that is grouped; a query with one unit has none here."""
        if self.query.is_global:
            return self.context.spark.createDataFrame([], StructType())
        units = GroupRowUnits(self.query, self.query.text, self.names, self.context.job_rows.names)
        return run_query(self.context.spark, units, self._used())

    def groups_of(self, touched: DataFrame) -> DataFrame:
        """Return the view's rows of some units."""
        if self.query.is_global:
            return self.groups()
        rows = self.context.job_rows
        used = self.rows.select(*map(column, rows.columns))
        require_checked(self.context.spark, self.context.query, used)
        text = self.query.render_slice(_ROWS, _TOUCHED, self.names, rows.names)
        return run(self.context, text, {_ROWS: used, _TOUCHED: touched})

    def before_grouping(self, selected: str) -> DataFrame:
        """Return columns of the rows that the first step that groups reads."""
        return run(self.context, self.query.render_rows(_ROWS, selected), {_ROWS: self._used()})

    def _used(self) -> DataFrame:
        return self.rows.select(*map(column, self.query.columns_of(self.context.job_rows.columns)))


class UpstreamInput(GroupInput):
    """
    Gives the rows of one upstream that a view of groups is computed from.

    :param query: the query.
    """

    query: GroupQuery

    def empty(self) -> GroupedRows:
        """Return no rows."""
        return self._of(self.context.job_rows.empty())

    @contextmanager
    def sample(self, rows: DataFrame) -> Iterator[GroupedRows]:
        """Give some rows."""
        with sampled(rows) as kept:
            yield self._of(kept)

    def read_set(self, barrier: Barrier) -> GroupedRows:
        """Return all rows that were read before an epoch, as of the end of its window."""
        return self._of(self.context.read_set(barrier, with_chunk=False))

    def chunk(self, rows: DataFrame, further: Mapping[str, DataFrame], part: int, barrier: Barrier) -> GroupedRows:
        """Return the rows of a part of history."""
        del further, part, barrier
        return self._of(rows)

    @contextmanager
    def images(self, changes: Changes, barrier: Barrier) -> Iterator[Images]:
        """Give both images of the changed rows."""
        del barrier
        yield Images(self._of(self.context.old(changes)), self._of(self.context.new(changes)))

    def _of(self, rows: DataFrame) -> UpstreamRows:
        return UpstreamRows(self.context, self.query, rows, self.names)
