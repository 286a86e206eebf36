"""Reads ahead on Spark, and makes what was read consistent with the changes since."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import EpochFailedError, InvalidJobError, StateError
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.present_rows import PresentRows
from airflow_backfill_provider.sources.shared.by_key import column, without_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.net_changes import net_changes
from airflow_backfill_provider.spark.own_table import create_own_table
from airflow_backfill_provider.spark.predicates import in_any
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import TableKind
from airflow_backfill_provider.strategies.cdc.files import CommittedReading, ReadAheadFiles, Reading
from airflow_backfill_provider.strategies.cdc.location import TABLE, sample_of, table_of
from airflow_backfill_provider.strategies.cdc.next_chunk import ranges_to_read, reading_name, rows_left
from airflow_backfill_provider.strategies.cdc.sample import MOST_KEYS, read_sample, write_sample
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext

logger = logging.getLogger(__name__)

READ_AHEAD = "read-ahead"
"""The name of the write that appends the rows that an epoch reads ahead."""

READ_AHEAD_TABLE = TableKind("read_ahead", StateError, "rebuild the job")


@dataclass(frozen=True, kw_only=True)
class SettledChunk:
    """
    Rows that were read ahead, as of an offset.

    Of a key that was changed since it may have been read, the last change counts, whatever was read. So it does not
    matter which of these changes the reader had seen.

    :param job_rows: the upstream's rows that belong to the job.
    :param read: the rows as they were read, in the chunk's ranges.
    :param net: the net changes in these ranges, up to the offset.
    :param expected: about how many rows these are.
    """

    job_rows: JobRows
    read: DataFrame
    net: DataFrame
    expected: int

    def rows(self) -> DataFrame:
        """Return the rows."""
        own, names = self.job_rows.own, self.job_rows.key.names
        columns = [column(name) for name in self.job_rows.columns]
        unchanged = without_keys(self.read, self.net.select(*map(column, names)), names).select(*columns)
        return unchanged.unionAll(self.net.filter(F.col(own.is_upsert)).select(*columns))

    def count(self) -> dict[int, int]:
        """Count the rows; refuse two with the same key."""
        return {0: self._rows} if self._rows else {}

    @cached_property
    def _rows(self) -> int:
        return self.job_rows.measure_chunk(self.rows(), expected=self.expected)

    def require_sound(self) -> None:
        """Do nothing: counting checks every key."""


class CdcReader(HistoryReader):
    """
    Reads one incarnation's rows ahead.

    :param context: the objects that the reader works with.
    """

    def __init__(self, context: ReaderContext) -> None:
        self._context = context
        self._location = table_of(context.settings)
        self._files = ReadAheadFiles(self._location, context.storage_options)
        self._table = StampedTable(context.spark, self._location, READ_AHEAD_TABLE, context.storage_options)
        self._identity = ViewIdentity.of(context.settings)

    @property
    def tables(self) -> Mapping[str, str]:
        """The table of rows that were read ahead."""
        return {TABLE: self._location}

    def prepare(self) -> None:
        """Sample the keys, and create the empty table."""
        if self._files.exists():
            return
        context, order = self._context, self._context.settings.scan.order
        # First, so that no table is without one.
        write_sample(sample_of(context.settings), self._present.sample_keys(MOST_KEYS), order, context.storage_options)
        own = context.job_rows.own
        empty = context.job_rows.empty().withColumn(own.epoch, F.lit(0).cast("long"))
        columns = [name for name in context.job_rows.columns if name not in order.names]
        indexed = len(order.fields) + 1
        options: dict[str, str | int] = {
            "delta.columnMapping.mode": "name",
            "delta.dataSkippingNumIndexedCols": indexed,
            # The commits say what was read, so none may be cleaned up.
            "delta.logRetentionDuration": "interval 36500 days",
        }
        laid_out = empty.select(*map(column, order.names), own.epoch, *map(column, columns))
        reached(CrashPoint.BEFORE_READ_AHEAD_COMMIT)
        create_own_table(laid_out, self._location, self._identity, exists=self._files.exists, options=options)
        reached(CrashPoint.AFTER_READ_AHEAD_COMMIT)

    # ------------------------------------------------------------------------------------------- reading ahead

    def read_ahead(self, barrier: Barrier) -> None:
        """Read the next range of keys from the upstream, once per epoch."""
        settings, rows = self._context.settings, self._context.job_rows
        if barrier.completes or barrier.paused or barrier.rate_limit == 0:
            return
        if self._table.is_written(READ_AHEAD, self._identity, barrier):
            # The attempt that wrote it may have died before its end.
            self._ended(self._files.readings(settings.scan.order), barrier)
            return
        order = settings.scan.order
        readings = self._ended(self._files.readings(order), barrier)
        if readings and readings[-1].covered.up_to == settings.keys.up_to:
            return
        ranges = self._ranges(barrier, readings)
        if ranges is None:
            return
        start = self._present.begin_reading()
        reading = Reading(
            epoch=barrier.epoch,
            covered=KeyRange(ranges[0].after, ranges[-1].up_to),
            changes_after=start.changes_after,
            server_run=start.server_run,
        )
        read = rows.present_rows(ranges)
        own = rows.own
        others = [name for name in rows.columns if name not in order.names]
        ordered = [
            column(field.name).desc_nulls_first() if field.descending else column(field.name).asc_nulls_first()
            for field in order.fields
        ]
        laid_out = read.select(
            *map(column, order.names),
            F.lit(barrier.epoch).cast("long").alias(own.epoch),
            *map(column, others),
        ).sortWithinPartitions(*ordered)
        reached(CrashPoint.BEFORE_READ_AHEAD_COMMIT)
        self._table.append(laid_out, READ_AHEAD, self._identity, barrier, reading.facts(order))
        reached(CrashPoint.AFTER_READ_AHEAD_COMMIT)
        self._end(reading)

    def _ended(self, readings: Sequence[CommittedReading], barrier: Barrier) -> list[CommittedReading]:
        """
        End the readings that are not: an attempt may have died, or an epoch may have been given up.

        :returns: the readings that count. From the first one that cannot be ended on, ranges are read again: no chunk
            passes it, and some sources have no record of an end, so that a crash takes back all readings that wait.
        """
        order = self._context.settings.scan.order
        position = _read_up_to(barrier, order)
        found = []
        for reading in readings:
            if not (reading.ends_by(position, order) or self._is_ended(reading) or self._end(reading)):
                break
            found.append(reading)
        return found

    def _is_ended(self, reading: CommittedReading) -> bool:
        name = reading_name(self._context.settings, reading.epoch)
        return self._present.seen_by(name, reading.committed_at, reading.server_run) is not None

    def _end(self, reading: Reading) -> bool:
        """End a reading; return whether its rows count."""
        name = reading_name(self._context.settings, reading.epoch)
        if self._present.end_reading(name, reading.server_run):
            return True
        logger.warning(
            "epoch %d read rows of %s while the server crashed; they are read again",
            reading.epoch,
            self._context.upstream.location,
        )
        return False

    def _ranges(self, barrier: Barrier, readings: Sequence[CommittedReading]) -> tuple[KeyRange, ...] | None:
        """
        Return the ranges to read next; ``None`` if enough was read ahead.

        :param readings: what was read ahead and counts.
        """
        settings, order = self._context.settings, self._context.settings.scan.order
        begin = readings[-1].covered.up_to if readings else settings.keys.after
        sample = read_sample(sample_of(settings), order, self._context.storage_options)
        rows = barrier.rate_limit
        if rows is not None:
            statistics, _ = self._files.statistics(order, readings)
            rows -= rows_left(statistics, KeyRange(_read_up_to(barrier, order), begin), order)
            if rows <= 0:
                return None
        within = KeyRange(begin, settings.keys.up_to)
        exactly = None if rows is None else self._present.first_rows(within, rows)
        total = self._context.upstream.row_count(barrier.upstream.to_offset)
        return ranges_to_read(
            begin=begin,
            within=exactly or within,
            sample=sample,
            rows_of_sample=total / max(len(sample), 1),
            rows=None if exactly else rows,
            order=order,
        )

    # -------------------------------------------------------------------------------------------------- chunks

    @contextmanager
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> Iterator[Chunk]:
        """Return the rows in some ranges as of the window's end."""
        rows, order = self._context.job_rows, self._context.settings.scan.order
        up_to = barrier.chunk_offset
        readings = self._unread(barrier)
        after = min(reading.changes_after for reading in readings)
        wanted = in_any(order, ranges)
        read = self._table.read().filter(F.col(rows.own.epoch).isin([reading.epoch for reading in readings]) & wanted)
        if rows.reader.is_cleared(after, up_to):
            read = read.limit(0)
        expected = barrier.upstream.row_count if barrier.rate_limit is None else barrier.rate_limit
        net = net_changes(rows, after, up_to, wanted).persist(KEPT)
        try:
            yield SettledChunk(job_rows=rows, read=read, net=net, expected=expected)
        finally:
            net.unpersist()

    def _unread(self, barrier: Barrier) -> list[CommittedReading]:
        """Return what was read before the epoch and is not in the view yet."""
        order = self._context.settings.scan.order
        readings = self._files.readings(order, before=barrier.epoch)
        position = barrier.read_before[-1].decoded(order).up_to if barrier.read_before else None
        unread = [reading for reading in readings if not reading.ends_by(position, order)]
        if not unread:
            raise EpochFailedError(
                f"epoch {barrier.epoch} of job {barrier.job} has a chunk of rows that were not read ahead; its table "
                f"at {self._location} was changed: rebuild the job"
            )
        return unread

    def require_untouched(self, barrier: Barrier, since: TableVersions | None) -> dict[str, TableVersion]:
        """Refuse rows that a foreign writer changed."""
        if (barrier.completes and not barrier.parts) or not self._files.exists():
            return {}
        known = since.strategy.get(TABLE) if since else None
        newest = self._table.require_continued(barrier, known)
        self._table.require_untouched(self._identity, barrier, known)
        return {TABLE: newest}

    @property
    def _present(self) -> PresentRows:
        present = self._context.upstream.present
        if present is None:
            raise InvalidJobError(
                f"strategy: cdc reads present rows, and {self._context.upstream.location} has none to read; use auto"
            )
        return present


def _read_up_to(barrier: Barrier, order: KeyOrder) -> Position | None:
    """Return the position of the view once the epoch's chunk is in it."""
    chunk = barrier.chunk(order) or tuple(pinned.decoded(order) for pinned in barrier.read_before)
    return chunk[-1].up_to if chunk else None
