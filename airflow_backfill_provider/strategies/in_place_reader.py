"""Reads chunks from the upstream itself, not from a strategy's own table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.predicates import in_any, without_data_skipping
from airflow_backfill_provider.spark.row_account import RowAccount
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedChunk:
    """
    A chunk by vnodes that is read from the upstream itself, because the arrangement got the same key twice.

    If one of two rows with a key was deleted, only the upstream shows which one is left.

    :param job_rows: the upstream's rows that belong to the job.
    :param selected: the rows in the chunk's ranges.
    """

    job_rows: JobRows
    selected: DataFrame

    def rows(self) -> DataFrame:
        """Return the rows."""
        return self.selected

    def count(self) -> dict[int, int]:
        """Count the rows by vnode; refuse two rows with the same key."""
        if self.job_rows.has_several(self.selected):
            raise self.job_rows.duplicates()
        vnode = self.job_rows.own.vnode
        counted = self.selected.groupBy(vnode).agg(F.count("*").alias("rows")).collect()
        return {row[vnode]: row["rows"] for row in counted}

    def require_sound(self) -> None:
        """Do nothing: counting checks every key."""


@dataclass(frozen=True, slots=True)
class _CountedRows:
    """Rows and their number."""

    rows: DataFrame
    count: int


@dataclass(frozen=True, kw_only=True)
class InPlaceChunk:
    """
    A chunk read from the upstream itself.

    Spark skips files that have no keys of the chunk according to their statistics. If the number of rows found is
    another one than the account has, or no later chunk would reveal a missing row, the rows are counted again without
    skipping. If that finds another number, the rows are also read without skipping.

    :param job_rows: the upstream's rows that belong to the job.
    :param upstream: the rows as of the chunk's offset.
    :param ranges: the chunk's ranges.
    :param offset: the chunk's offset.
    :param account: checks the counted rows.
    """

    job_rows: JobRows
    upstream: DataFrame
    ranges: Sequence[KeyRange]
    offset: Offset
    account: RowAccount

    def rows(self) -> DataFrame:
        """Return the rows."""
        return self._found.rows

    def count(self) -> dict[int, int]:
        """Count the rows, reading the key columns only."""
        return {0: self._found.count} if self._found.count else {}

    def require_sound(self) -> None:
        """Do nothing: counting checks every key."""

    @cached_property
    def _found(self) -> _CountedRows:
        if EVERYTHING in self.ranges:
            rows = self.job_rows.count_of_single_keys(self.offset)
            # The other reader says that each key is there once, and Spark, which writes them, sees as many rows.
            if rows is not None and rows == self.account.count(self.offset, self.ranges):
                return _CountedRows(self.upstream, rows)
        condition = in_any(self.job_rows.scan, self.ranges)
        bounds = self.account.bounds(self.offset, self.ranges)
        found = self._counted(self.upstream.filter(condition), bounds.at_most)
        # After an empty chunk or the last one, no later chunk would reveal a missing row, so count again.
        is_last = any(covered.up_to == self.job_rows.keys.up_to for covered in self.ranges)
        if found.count and found.count in bounds and not is_last:
            return found
        counted = self.account.count(self.offset, self.ranges)
        if counted == found.count:
            return found
        logger.warning(
            "%s: wrong statistics hide %d of a chunk's %d rows; reading the chunk without data skipping",
            self.job_rows.location,
            counted - found.count,
            counted,
        )
        return self._counted(self.upstream.filter(without_data_skipping(condition)), counted)

    def _counted(self, rows: DataFrame, most: int) -> _CountedRows:
        # Count the same data frame that is written, because another read may skip other files.
        return _CountedRows(rows, self.job_rows.measure_chunk(rows, expected=most))


@dataclass(frozen=True, kw_only=True)
class UnskippedChunk:
    """
    A chunk read from the upstream itself, without skipping any file.

    :param job_rows: the upstream's rows that belong to the job.
    :param selected: the rows in the chunk's ranges, without data skipping.
    :param expected: about how many.
    """

    job_rows: JobRows
    selected: DataFrame
    expected: int

    def rows(self) -> DataFrame:
        """Return the rows."""
        return self.selected

    def count(self) -> dict[int, int]:
        """Count the rows, reading the key columns only."""
        return {0: self._count} if self._count else {}

    def require_sound(self) -> None:
        """Do nothing: counting checks every key."""

    @cached_property
    def _count(self) -> int:
        return self.job_rows.measure_chunk(self.selected, expected=self.expected)


class InPlaceReader(HistoryReader):
    """
    Reads chunks from the upstream itself; has no tables.

    :param context: the objects that the reader works with.
    """

    def __init__(self, context: ReaderContext) -> None:
        self._context = context

    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the upstream's rows."""
        return nullcontext(
            InPlaceChunk(
                job_rows=self._context.job_rows,
                upstream=self._context.rows_at(barrier.chunk_offset),
                ranges=ranges,
                offset=barrier.chunk_offset,
                account=self._context.account,
            )
        )

    def chunk_after(self, error: Exception, barrier: Barrier, ranges: Sequence[KeyRange]) -> Chunk | None:
        """Return the rows without data skipping, if rows are missing; they may be missing in the chunk."""
        if not isinstance(error, MissingRowsError):
            return None
        context, offset = self._context, barrier.chunk_offset
        return UnskippedChunk(
            job_rows=context.job_rows,
            selected=context.rows_at(offset).filter(without_data_skipping(in_any(context.job_rows.scan, ranges))),
            expected=context.account.bounds(offset, ranges).at_most,
        )
