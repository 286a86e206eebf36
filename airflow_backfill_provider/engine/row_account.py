"""
Whether the rows that the epochs have read are all the rows that there are.

Each epoch counts what its chunk reads, and what its changes add or remove. The sum is held against the upstream:
cheaply against the number of rows that its log gives for the files that were passed, and against the rows themselves
where the two differ, and before a view is said to be complete. Nobody else's statistics decide: rows are counted by a
scan of the keys that skips nothing.

The executors need nothing of the kind: they read the storage of their own engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.barrier import Barrier, decoded
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.row_bounds import RowBounds, row_bounds
from airflow_backfill_provider.engine.job_rows import JobRows
from airflow_backfill_provider.engine.predicates import in_any
from airflow_backfill_provider.sources.base import Source


class RowAccount:
    """
    Holds what was counted against what there is.

    :param rows: those that the job is about.
    :param upstream: knows what statistics say.
    """

    def __init__(self, rows: JobRows, upstream: Source) -> None:
        self.rows = rows
        self._upstream = upstream
        self._counts: dict[tuple[Offset, tuple[KeyRange, ...]], int] = {}
        self._settled: dict[tuple[str, int | None], int | None] = {}

    def settle(self, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Return how many rows were read and are there once an epoch is committed.

        :param rows_present: the same, as the epochs counted it; ``None`` if they did not.
        :raises MissingRowsError: if there are more, or fewer.
        """
        # An epoch asks before it writes and when it commits; of very many files the answer takes a while.
        asked = barrier.digest, rows_present
        if asked not in self._settled:
            self._settled = {asked: self._compared(barrier, rows_present)}
        return self._settled[asked]

    def _compared(self, barrier: Barrier, rows_present: int | None) -> int | None:
        offset = barrier.single_offset
        if offset is None:
            return rows_present
        read = (pinned for shown in barrier.view_after for pinned in shown.ranges)
        ranges = (EVERYTHING,) if barrier.completes else decoded(read, self.rows.scan)
        if self.rows.vnodes <= set(barrier.repair.vnodes):
            # Whatever was read or missed before, all of it is written anew.
            return self.count(offset, ranges)
        if rows_present is None or self._is_plausible(barrier, offset, ranges, rows_present):
            return rows_present
        there = self.count(offset, ranges)
        if there != rows_present:
            raise self._missing(barrier, offset, rows_present, there)
        return rows_present

    def bounds(self, offset: Offset, ranges: Sequence[KeyRange]) -> RowBounds:
        """Return how many of the job's rows lie in some ranges of keys as of an offset, as far as statistics tell."""
        files = self._upstream.blocks(offset, self.rows.key)
        return row_bounds(files, ranges, self.rows.key, share=self.rows.is_restricted)

    def count(self, offset: Offset, ranges: Sequence[KeyRange]) -> int:
        """Count the job's rows in some ranges of the scan's order as of an offset, without skipping any file."""
        counted = offset, tuple(ranges)
        if counted not in self._counts:
            one = F.lit(1) if EVERYTHING in ranges else F.when(in_any(self.rows.scan, ranges), 1)
            # A plain count is answered from the log, and a condition on rows keeps files out.
            total = self.rows.at(offset).agg(F.sum(one).alias("rows")).collect()[0]["rows"]
            self._counts = {counted: int(total or 0)}
        return self._counts[counted]

    def _is_plausible(self, barrier: Barrier, offset: Offset, ranges: Sequence[KeyRange], rows: int) -> bool:
        """Tell whether a number of rows needs no counting again, by what the log says of the files."""
        if barrier.parts and barrier.completes:
            return False
        if not (self.rows.has_key_positions or barrier.completes):
            # No file's statistics say anything of vnodes.
            return True
        return rows in self.bounds(offset, ranges)

    def _missing(self, barrier: Barrier, offset: Offset, read: int, there: int) -> MissingRowsError:
        differing = abs(there - read)
        what = f"{differing} {'row' if differing == 1 else 'rows'} {'fewer' if there > read else 'more'}"
        return MissingRowsError(
            f"epoch {barrier.epoch} of job {barrier.job} would leave {what} than {self.rows.location} has as of "
            f"version {offset} ({read} of {there}); statistics in the table's log, or in its files, hide rows from "
            "readers. Have Spark write the table's files anew, and then repair all vnodes or rebuild the job"
        )
