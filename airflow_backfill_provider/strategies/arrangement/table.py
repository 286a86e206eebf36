"""
The arrangement: a replica of the used columns, laid out by (vnode, key), from which chunks are read.

Ports ``ReplicatedStateTable``, to which every epoch writes its changes. Delta rewrites whole files to change rows, and
changes of keys in random order affect all files. So this table is only appended to: first a sorted base, and then each
epoch's net changes of rows that are not read yet, with the epoch in a column. Rows are selected by the epoch column, so
every attempt of an epoch reads the same rows (I2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import EpochFailedError, StateError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.core.status.compaction import CompactionPlan
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.lake.tables.view_table import names_to_map
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.compaction import compact
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.own_table import create_own_table
from airflow_backfill_provider.spark.predicates import in_any
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import TableKind, transaction_id
from airflow_backfill_provider.strategies.arrangement.arranged_rows import ArrangedChunk, BaseChunk, changed_since_base
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

ARRANGEMENT = "arrangement"
"""The name of the write that appends an epoch's changes of unread rows to the arrangement."""

ARRANGEMENT_TABLE = TableKind("arrangement", StateError, "rebuild the job")

FILES_PER_CHUNK = 8
"""The number of files of the base that a chunk spans."""

_SMALL_PAGES = {"parquet.page.row.count.limit": "2000"}
"""A chunk begins and ends inside files; with small pages, two chunks read few rows twice."""

FEWEST_ROWS_PER_FILE = 20_000
MOST_ROWS_PER_FILE = 1_000_000
FEWEST_CHANGES_PER_FILE = 5_000


class ArrangementTable:
    """
    One incarnation's arrangement.

    :param spark: the session to read and write with.
    :param path: canonical location.
    :param job_rows: the rows that it replicates.
    :param scan: the job's scan.
    :param base_epoch: the epoch in the rows of the base.
    :param identity: the identity of the job's view.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        job_rows: JobRows,
        scan: VnodeScan,
        *,
        base_epoch: int,
        identity: ViewIdentity,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._own = job_rows.own
        self._table = StampedTable(spark, path, ARRANGEMENT_TABLE, storage_options)
        self._files = ArrangementFiles(path, storage_options)
        self._job_rows = job_rows
        self._scan = scan
        self._base_epoch = base_epoch
        self._identity = identity

    # -------------------------------------------------------------------------------------------------- writes

    def ensure(self, offset: Offset, *, rows: int, rate_limit: int | None) -> None:
        """
        Create the base with one sort and one commit, unless it exists.

        :param offset: the upstream's offset to replicate.
        :param rows: the estimated number of the upstream's rows.
        :param rate_limit: the number of rows in a chunk, which decides the size of the files.
        """
        if self._files.exists():
            return
        files = max(math.ceil(rows / _rows_per_file(rate_limit)), 1)
        base = self._laid_out(self._job_rows.at(offset), F.lit(True), F.lit(False), self._base_epoch, files)
        indexed = len(self._scan.order.fields) + 1
        # Only Delta's own writer appends to a table with mapped names, and that takes longer.
        options: dict[str, str | int] = {
            **({"delta.columnMapping.mode": "name"} if names_to_map(TableSchema.of(base.schema.json()).types) else {}),
            "delta.dataSkippingNumIndexedCols": indexed,
            "txnAppId": transaction_id(self._identity, ARRANGEMENT),
            "txnVersion": self._base_epoch,
        }
        with session_settings(self._table.spark, _SMALL_PAGES):
            create_own_table(base, self._table.path, self._identity, exists=self._files.exists, options=options)

    def append(self, changes: DataFrame, barrier: Barrier, rows: int) -> None:
        """
        Append an epoch's net changes of rows that are not read yet, once.

        :param changes: net changes per vnode and key.
        :param rows: the number of changes.
        """
        if not self._files.exists():
            # An append would create a new table with only the changes.
            raise EpochFailedError(
                f"the arrangement at {self._table.path} is gone, so epoch {barrier.epoch} cannot append to it; the "
                "job was finished or rebuilt meanwhile: check its status, then try again"
            )
        laid_out = self._laid_out(
            changes, F.col(self._own.is_upsert), F.col(self._own.appeared), barrier.epoch, _files_of_changes(rows)
        )
        with session_settings(self._table.spark, _SMALL_PAGES):
            self._table.append(laid_out, ARRANGEMENT, self._identity, barrier)

    def fence_changes(self, barrier: Barrier) -> bool:
        """Prevent the write of an epoch's changes, unless it is done; return whether it is prevented."""
        return not self._files.exists() or not self._table.fence(ARRANGEMENT, self._identity, barrier)

    def compact(self, plan: CompactionPlan) -> None:
        """
        Compact the small files of changes; files of the base never count as small.

        The rows of each file stay together and in order, and pages stay small, so a chunk still reads few extra rows.
        """
        with session_settings(self._table.spark, _SMALL_PAGES):
            compact(self._table, plan, self._identity.incarnation)

    def _laid_out(self, rows: DataFrame, is_upsert: Column, appeared: Column, epoch: int, files: int) -> DataFrame:
        """
        Return rows in the arrangement's columns and order; the columns with statistics come first.

        Rows of a unit are ordered by their key, so that a large unit is divided among files.
        """
        keys = self._scan.order.names
        others = [name for name in self._job_rows.columns if name not in keys]
        order = [
            (column(field.name).desc_nulls_first() if field.descending else column(field.name).asc_nulls_first())
            for field in self._job_rows.identity.fields
        ]
        return (
            rows.select(
                *map(column, keys),
                F.lit(epoch).cast("long").alias(self._own.epoch),
                is_upsert.alias(self._own.is_upsert),
                appeared.alias(self._own.appeared),
                *map(column, others),
            )
            .repartitionByRange(files, *order)
            .sortWithinPartitions(*order)
        )

    def require_untouched(self, barrier: Barrier, since: TableVersion | None) -> TableVersion | None:
        """
        Refuse an arrangement that was restored from a copy, or changed by a foreign writer.

        :param since: the version that the previous epoch left, if known.
        :returns: the newest version; ``None`` if no further chunk is read from it, so it may be dropped.
        :raises StateError: with what was found.
        """
        if (barrier.completes and not barrier.parts) or not self._files.exists():
            return None
        newest = self._table.require_continued(barrier, since)
        self._table.require_untouched(self._identity, barrier, since)
        return newest

    # --------------------------------------------------------------------------------------------------- reads

    def base_chunk(self, ranges: Sequence[KeyRange]) -> BaseChunk:
        """Return the rows in some ranges as of the offset that the arrangement was created at."""
        base = self._table.read().filter(F.col(self._own.epoch) == self._base_epoch)
        return BaseChunk(base=base, ranges=ranges, scan=self._scan, job_rows=self._job_rows)

    @contextmanager
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> Iterator[ArrangedChunk]:
        """Return the rows in some ranges with all changes up to the barrier's epoch, to be used inside the block."""
        epoch = F.col(self._own.epoch)
        log = self._table.read().filter(
            (epoch > self._base_epoch) & (epoch <= barrier.epoch) & in_any(self._scan.order, ranges)
        )
        changed = changed_since_base(log, self._scan, self._job_rows).persist(KEPT)
        try:
            yield ArrangedChunk(of_base=self.base_chunk(ranges), changed=changed)
        finally:
            changed.unpersist()


def _files_of_changes(rows: int) -> int:
    """Return the number of files for an epoch's changes; a chunk reads only the files that overlap it."""
    return max(min(math.ceil(rows / FEWEST_CHANGES_PER_FILE), FILES_PER_CHUNK), math.ceil(rows / MOST_ROWS_PER_FILE), 1)


def _rows_per_file(rate_limit: int | None) -> int:
    if not rate_limit:
        return MOST_ROWS_PER_FILE
    return min(max(rate_limit // FILES_PER_CHUNK, FEWEST_ROWS_PER_FILE), MOST_ROWS_PER_FILE)
