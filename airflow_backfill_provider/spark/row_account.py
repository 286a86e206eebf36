"""
Checks that the epochs have read all rows of the upstream.

Each epoch counts the rows of its chunk, and the rows that its changes add or remove. Chunk and sum are checked against
another count, which Spark has no part in: the numbers of rows that the upstream's log records for the files at or
before the position, and the keys of the few files that the position cuts. If the two differ, and before a view is
finished, Spark counts the rows themselves. That count does not rely on statistics: it scans the keys and skips no file.

Streaming executors need no such check, because they read the storage of their own engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.row_bounds import RowBounds, row_bounds
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.spark.further_lead import FurtherLead, RowCounter
from airflow_backfill_provider.spark.job_rows import JobRows


class RowAccount:
    """
    Checks the counted rows against the upstream.

    :param settings: the job's settings; only what its creation fixed matters.
    :param rows: the upstream's rows that belong to the job.
    :param upstream: the upstream, for its statistics and for the keys of single files.
    :param further: the upstreams that lead further branches, by their names; none for most jobs. Epochs count the rows
        of all of them together.
    """

    def __init__(
        self,
        settings: JobSettings,
        rows: JobRows,
        upstream: Source,
        further: Mapping[str, FurtherLead] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self.rows = rows
        self.upstream = upstream
        self._further = further
        self._counter = RowCounter(rows)
        self._settled: dict[tuple[str, int | None], int | None] = {}

    def settle(self, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Return the number of read rows that exist after an epoch is committed.

        :param rows_present: the number by the epochs' own counts; ``None`` if they did not count.
        :raises MissingRowsError: if there are more or fewer.
        """
        # An epoch calls this twice, before it writes and when it commits, and it is slow for very many files.
        asked = barrier.digest, rows_present
        if asked not in self._settled:
            self._settled = {asked: self._compared(barrier, rows_present)}
        return self._settled[asked]

    def _compared(self, barrier: Barrier, rows_present: int | None) -> int | None:
        offset = barrier.single_offset
        if offset is None or not self.upstream.can_reread:
            return rows_present
        read = (pinned for shown in barrier.view_after for pinned in shown.ranges)
        ranges = (EVERYTHING,) if barrier.completes else decoded(read, self.rows.scan)
        if self.rows.vnodes <= set(barrier.repair.vnodes):
            # The repair rewrites everything, so earlier counts don't matter.
            return self._count_of_all(barrier, offset, ranges)
        if rows_present is None or self._is_plausible(barrier, offset, ranges, rows_present):
            return rows_present
        counted = self._count_of_all(barrier, offset, ranges)
        if counted != rows_present:
            # What was learned may come from another reader, and only what Spark counts is held against what it read.
            self._forget()
            counted = self._count_of_all(barrier, offset, ranges)
        if counted != rows_present:
            raise self._missing(barrier, offset, rows_present, counted)
        return rows_present

    def bounds(self, offset: Offset, ranges: Sequence[KeyRange]) -> RowBounds:
        """
        Return bounds of the number of the job's rows in some ranges of keys as of an offset.

        They are the number itself, if the upstream can tell it without Spark, and else follow from statistics.
        """
        ranges = [self._of_job(covered) for covered in ranges]
        exact = self.upstream.rows_in(self._settings, offset, ranges)
        if exact is not None:
            return RowBounds(exact, exact)
        files = self.upstream.blocks(offset, self.rows.key)
        return row_bounds(files, ranges, self.rows.key, share=self.rows.is_restricted)

    def _of_job(self, covered: KeyRange) -> KeyRange:
        """Return the part of a range that the job covers; positions lie within it, but a range may have no ends."""
        keys = self.rows.keys
        return KeyRange(covered.after or keys.after, covered.up_to or keys.up_to)

    def count(self, offset: Offset, ranges: Sequence[KeyRange]) -> int:
        """Count the job's rows in some ranges of the scan's order as of an offset, without skipping any file."""
        return self._counter.count(offset, ranges)

    def _count_of_all(self, barrier: Barrier, offset: Offset, ranges: Sequence[KeyRange]) -> int:
        """Count the rows of all upstreams that lead, each as of the end of its window."""
        if self.rows.others:
            # Which units a row of the lead belongs to depends on the other upstreams, as of the ends of their windows.
            return RowCounter(self.rows.at_ends(barrier)).count(offset, ranges)
        others = (lead.counter.count(barrier.window(name).to_offset, ranges) for name, lead in self._further.items())
        return self.count(offset, ranges) + sum(others)

    def with_changes(self, barrier: Barrier) -> int:
        """Return the number of rows read before an epoch, with its changes; from the logs if these are exact there."""
        offset = barrier.upstream.to_offset
        if not barrier.completes:
            return self._count_of_all(barrier, offset, decoded(barrier.read_before, self.rows.scan))
        bounds = self._bounds_of_all(barrier, offset, (EVERYTHING,))
        if bounds.at_least == bounds.at_most:
            return bounds.at_least
        return self._count_of_all(barrier, offset, (EVERYTHING,))

    def learn(self, offset: Offset, rows: int) -> None:
        """Remember the number of all of the job's rows as of an offset, which was counted without skipping any file."""
        self._counter.learn(offset, rows)

    def _forget(self) -> None:
        """Forget what was counted and learned."""
        for counter in (self._counter, *(lead.counter for lead in self._further.values())):
            counter.forget()

    def _is_plausible(self, barrier: Barrier, offset: Offset, ranges: Sequence[KeyRange], rows: int) -> bool:
        """Return whether a number of rows agrees with the upstream's, so that it need not be counted again."""
        if barrier.parts and barrier.completes:
            return False
        if self.rows.units is not None or not (self.rows.has_key_positions or barrier.completes):
            # Statistics of files don't cover vnodes, and don't say which rows a query leaves out.
            return True
        return rows in self._bounds_of_all(barrier, offset, ranges)

    def _bounds_of_all(self, barrier: Barrier, offset: Offset, ranges: Sequence[KeyRange]) -> RowBounds:
        """Return bounds of the number of rows of all upstreams that lead, each as of the end of its window."""
        bounds = [self.bounds(offset, ranges)]
        bounds += [lead.bounds(barrier.window(name).to_offset, ranges) for name, lead in self._further.items()]
        return RowBounds(sum(each.at_least for each in bounds), sum(each.at_most for each in bounds))

    def _missing(self, barrier: Barrier, offset: Offset, read: int, counted: int) -> MissingRowsError:
        differing = abs(counted - read)
        what = f"{differing} {'row' if differing == 1 else 'rows'} {'fewer' if counted > read else 'more'}"
        others = [lead.rows.location for lead in self._further.values()]
        located = f"{' and '.join([self.rows.location, *others])} {'have' if others else 'has'}"
        return MissingRowsError(
            f"epoch {barrier.epoch} of job {barrier.job} would leave {what} than {located} as of "
            f"offset {offset} ({read} of {counted}); wrong statistics in the table's log or files hide rows from "
            "readers. Rewrite the table's files with Spark, and then repair all vnodes or rebuild the job"
        )
