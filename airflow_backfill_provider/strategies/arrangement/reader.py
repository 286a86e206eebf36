"""The arrangement on Spark: creates it, keeps it current, and reads chunks from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from pyspark.sql import Column, DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.core.status.compaction import CompactionPlan
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.predicates import in_any, without_data_skipping
from airflow_backfill_provider.spark.spark_errors import epoch_errors, is_duplicate_key
from airflow_backfill_provider.strategies.arrangement.location import TABLE
from airflow_backfill_provider.strategies.arrangement.table import ArrangementTable
from airflow_backfill_provider.strategies.in_place_reader import CheckedChunk
from airflow_backfill_provider.strategies.reader import Chunk, HistoryReader, ReaderContext
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan


class ArrangementReader(HistoryReader):
    """
    Reads one incarnation's arrangement.

    :param context: the objects that the reader works with.
    :param location: the arrangement's location.
    :param scan: the job's scan.
    """

    # The arrangement has the rows as of the window's end only after the changes are written.
    counts_before_changes: ClassVar[bool] = False

    def __init__(self, context: ReaderContext, location: str, scan: VnodeScan) -> None:
        self._context = context
        self._location = location
        self._table = ArrangementTable(
            context.spark,
            location,
            context.job_rows,
            scan,
            base_epoch=context.settings.base_epoch,
            identity=ViewIdentity.of(context.settings),
            storage_options=context.storage_options,
        )

    @property
    def tables(self) -> Mapping[str, str]:
        """The arrangement."""
        return {TABLE: self._location}

    def prepare(self) -> None:
        """Create the arrangement as of the offset that was pinned when the job was created."""
        settings, upstream = self._context.settings, self._context.upstream
        start = settings.start
        if start is None:
            return
        upstream.at(start.offset).require_same_table(settings.upstream)
        upstream.require_same_history(start)
        with epoch_errors(f"creating the arrangement of job {settings.job['name']}"):
            reached(CrashPoint.BEFORE_ARRANGEMENT_COMMIT)
            rows = upstream.row_count(start.offset)
            # Chunks that follow the measured speed grow, so files are as large as without a limit.
            chunk = settings.rate_limit if isinstance(settings.rate_limit, int) else None
            self._table.ensure(start.offset, rows=rows, rate_limit=chunk)
            reached(CrashPoint.AFTER_ARRANGEMENT_COMMIT)

    def wanted(self, visible: Column, barrier: Barrier) -> Column | None:
        """Return the condition for the changes of unread rows that the arrangement lacks, unless all changes wait."""
        return ~visible & self._context.job_rows.is_after(barrier.kept_up_to) if barrier.publishes else None

    def keep(self, changes: DataFrame, barrier: Barrier, rows: int) -> None:
        """Append an epoch's net changes of rows that are not read yet, once."""
        reached(CrashPoint.BEFORE_ARRANGEMENT_COMMIT)
        self._table.append(changes, barrier, rows)
        reached(CrashPoint.AFTER_ARRANGEMENT_COMMIT)

    def fence(self, barrier: Barrier) -> bool:
        """Give up an epoch's changes of rows that are not read yet, unless they are written."""
        return self._table.fence_changes(barrier)

    def require_untouched(self, barrier: Barrier, since: TableVersions | None) -> dict[str, TableVersion]:
        """Refuse an arrangement that a foreign writer changed."""
        newest = self._table.require_untouched(barrier, since.strategy.get(TABLE) if since else None)
        return {} if newest is None else {TABLE: newest}

    def compact(self, name: str, plan: CompactionPlan) -> None:
        """Compact the files of changes."""
        del name
        self._table.compact(plan)

    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the arrangement's rows; as of its start, those of its base, unless their units depend on others."""
        start, depends = self._context.settings.start, bool(self._context.job_rows.others)
        if start is not None and barrier.chunk_offset == start.offset and not depends:
            return nullcontext(self._table.base_chunk(ranges))
        return self._table.chunk(barrier, ranges)

    def chunk_after(self, error: Exception, barrier: Barrier, ranges: Sequence[KeyRange]) -> Chunk | None:
        """Return the upstream's own rows if the arrangement got the same key twice; one of the rows may be gone."""
        if not is_duplicate_key(error):
            return None
        job_rows = self._context.job_rows
        if job_rows.others:
            rows = job_rows.at_ends(barrier).at(barrier.chunk_offset)
        else:
            rows = self._context.rows_at(barrier.chunk_offset)
        return CheckedChunk(
            job_rows=job_rows, selected=rows.filter(without_data_skipping(in_any(job_rows.scan, ranges)))
        )
