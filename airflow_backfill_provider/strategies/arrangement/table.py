"""
The arrangement: a replica of the used columns, laid out by (vnode, key), from which chunks are read.

Ports ``ReplicatedStateTable``, which every epoch writes its changes to. Rewriting rows in Delta costs whole files, and
changes of keys in random order are everywhere, so here the table is only ever appended to: one sorted base, made once,
and then each epoch's net changes of rows that are not read yet, stamped with the epoch. A chunk is the base in its
ranges, without the rows that changed since, and the newest of those. What an epoch reads depends on the stamp alone,
so that every attempt of it reads the same (I2).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.compaction import CompactionPlan
from airflow_backfill_provider.core.errors import EpochFailedError, StateError
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.engine.compaction import compact
from airflow_backfill_provider.engine.job_rows import JobRows, column
from airflow_backfill_provider.engine.predicates import in_any
from airflow_backfill_provider.engine.session import session_settings
from airflow_backfill_provider.engine.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.engine.stamped_table import StampedTable
from airflow_backfill_provider.engine.stamps import TableKind, transaction_id
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

ARRANGEMENT = "arrangement"
"""The part of an epoch that appends the changes of rows not read yet to the arrangement."""

ARRANGEMENT_TABLE = TableKind("arrangement", StateError, "rebuild the job")

_NEWEST, _IS_LIVE, _FIRST_APPEARED, _IS_DOUBLE = "newest", "is_live", "first_appeared", "is_double"

FILES_PER_CHUNK = 8
"""Files that a chunk of the base is made of."""

_SMALL_PAGES = {"parquet.page.row.count.limit": "2000"}
"""A chunk begins and ends inside of files; the pages around that are read twice, and no others."""

FEWEST_ROWS_PER_FILE = 20_000
MOST_ROWS_PER_FILE = 1_000_000
FEWEST_CHANGES_PER_FILE = 5_000


class ArrangementTable:
    """
    One incarnation's arrangement.

    :param spark: the session to read and write with.
    :param path: canonical location.
    :param job_rows: the rows that it replicates.
    :param scan: the scan that it serves.
    :param base_epoch: the epoch that its base is stamped with.
    :param identity: the view that it is for.
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
        Make the base by one sort and one commit, unless it is there.

        :param offset: the upstream's offset to replicate.
        :param rows: the upstream's rows; an estimate.
        :param rate_limit: rows of a chunk, to which the size of the files is fitted.
        """
        if self._files.exists():
            return
        files = max(math.ceil(rows / _rows_per_file(rate_limit)), 1)
        base = self._laid_out(self._job_rows.at(offset), F.lit(True), F.lit(False), self._base_epoch, files)
        indexed = len(self._scan.order.fields) + 1
        try:
            with session_settings(self._table.spark, _SMALL_PAGES):
                # The one name of this mode that Spark Connect knows, too.
                (
                    base.write.format("delta")
                    .mode("error")
                    .option("delta.columnMapping.mode", "name")
                    .option("delta.dataSkippingNumIndexedCols", indexed)
                    .option("txnAppId", transaction_id(self._identity, ARRANGEMENT))
                    .option("txnVersion", self._base_epoch)
                    .option("userMetadata", json.dumps({"event": "create", "incarnation": self._identity.incarnation}))
                    .save(self._table.path)
                )
        except PySparkException:
            # Somebody else may have been faster; theirs is the same.
            if not self._files.exists():
                raise

    def append(self, changes: DataFrame, barrier: Barrier, rows: int) -> None:
        """
        Append an epoch's net changes of rows that are not read yet, once.

        :param changes: net changes per vnode and key.
        :param rows: their number.
        """
        if not self._files.exists():
            # An append would make a new table, with the changes alone.
            raise EpochFailedError(
                f"the arrangement at {self._table.path} is gone, so epoch {barrier.epoch} has nothing to add to; the "
                "job was finished or rebuilt meanwhile"
            )
        laid_out = self._laid_out(
            changes, F.col(self._own.is_upsert), F.col(self._own.appeared), barrier.epoch, _files_of_changes(rows)
        )
        with session_settings(self._table.spark, _SMALL_PAGES):
            self._table.append(laid_out, ARRANGEMENT, self._identity, barrier)

    def fence_changes(self, barrier: Barrier) -> bool:
        """Give up an epoch's changes, unless they are written; return whether they are not."""
        return not self._files.exists() or not self._table.fence(ARRANGEMENT, self._identity, barrier)

    def compact(self, plan: CompactionPlan) -> None:
        """
        Do to the files of changes what is planned; files of the base are none of the small ones.

        The rows of each file stay together and in order, and with small pages a chunk still reads those around it.
        """
        with session_settings(self._table.spark, _SMALL_PAGES):
            compact(self._table, plan, self._identity.incarnation)

    def _laid_out(self, rows: DataFrame, is_upsert: Column, appeared: Column, epoch: int, files: int) -> DataFrame:
        """Return rows in the arrangement's columns and order; what statistics are kept of comes first."""
        keys = self._scan.order.names
        others = [name for name in self._job_rows.columns if name not in keys]
        order = [
            (column(field.name).desc_nulls_first() if field.descending else column(field.name).asc_nulls_first())
            for field in self._scan.order.fields
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
        Refuse an arrangement that anything but the job's epochs wrote to, or that was put back from a copy.

        :param since: the version that the previous epoch left, if that is known.
        :returns: its newest version; ``None`` if no chunk is read of it any more, so that it may be dropped.
        :raises StateError: saying how that was seen.
        """
        if (barrier.completes and not barrier.parts) or not self._files.exists():
            return None
        newest = self._table.require_continued(barrier, since)
        self._table.require_untouched(self._identity, barrier, since)
        return newest

    # --------------------------------------------------------------------------------------------------- reads

    @contextmanager
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> Iterator[ArrangedChunk]:
        """Return the upstream's rows in some ranges as of the barrier's ``to_offset``, to be used inside the block."""
        base = self._table.read().filter(F.col(self._own.epoch) == self._base_epoch)
        changed = self._changed(barrier, ranges).persist()
        try:
            yield ArrangedChunk(base, changed, ranges, self._scan, self._job_rows)
        finally:
            changed.unpersist()

    def _changed(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return what became of each (vnode, key) that changed since the base was made, up to the barrier's epoch.

        :returns: under the package's names, its vnode and key as ``changed_0, …``, ``vnode``, ``first_appeared`` (the
            base does not have it), ``is_double`` (it was inserted while it was there), ``is_live`` and ``newest``, the
            newest row.
        """
        own = self._own
        epoch = F.col(own.epoch)
        log = self._table.read().filter(
            (epoch > self._base_epoch) & (epoch <= barrier.epoch) & in_any(self._scan.order, ranges)
        )
        keys = [column(name) for name in self._scan.order.names]
        entries = F.array_sort(F.collect_list(F.struct(own.epoch, own.is_upsert, own.appeared)))
        history = F.col(own.named("history"))
        changed = log.groupBy(*keys).agg(
            F.max_by(F.struct(own.vnode, *map(column, self._job_rows.columns)), epoch).alias(own.named(_NEWEST)),
            F.max_by(own.is_upsert, epoch).alias(own.named(_IS_LIVE)),
            F.min_by(own.appeared, epoch).alias(own.named(_FIRST_APPEARED)),
            entries.alias(own.named("history")),
        )
        was_there = F.transform(F.slice(history, 1, F.size(history) - 1), lambda entry: entry[own.is_upsert])
        inserted = F.transform(F.slice(history, 2, F.size(history)), lambda entry: entry[own.appeared])
        doubles = F.exists(F.zip_with(was_there, inserted, lambda there, again: there & again), lambda both: both)
        return changed.select(
            *(key.alias(name) for key, name in zip(keys, _changed_keys(self._scan), strict=True)),
            own.vnode,
            *map(own.named, (_FIRST_APPEARED, _IS_LIVE, _NEWEST)),
            doubles.alias(own.named(_IS_DOUBLE)),
        )


class ArrangedChunk:
    """
    Rows of an arrangement in some ranges, as of one epoch.

    :param base: the arrangement's base.
    :param changed: what became of each (vnode, key) in the ranges that changed since.
    :param ranges: what to read.
    :param scan: the scan's order.
    :param job_rows: the rows that are replicated.
    """

    def __init__(
        self,
        base: DataFrame,
        changed: DataFrame,
        ranges: Sequence[KeyRange],
        scan: VnodeScan,
        job_rows: JobRows,
    ) -> None:
        self._base = base
        self._changed = changed
        self._ranges = ranges
        self._scan = scan
        self._job_rows = job_rows

    def rows(self) -> DataFrame:
        """
        Return the rows, used columns and their vnodes.

        Evaluating them fails if the upstream inserted a key that it had.
        """
        own = self._scan.own
        first_appeared = F.col(own.named(_FIRST_APPEARED))
        base = self._base.filter(in_any(self._scan.order, self._ranges))
        names, changed_keys = self._scan.order.names, _changed_keys(self._scan)
        changed = self._changed.select(*changed_keys, first_appeared)
        same = [column(name).eqNullSafe(F.col(key)) for name, key in zip(names, changed_keys, strict=True)]
        # A key in the base that was then inserted, without having been removed, is there twice.
        kept = base.join(changed, same, "left").filter(
            F.when(first_appeared, F.raise_error(F.lit(DUPLICATE_KEY)).cast("boolean")).otherwise(
                first_appeared.isNull()
            )
        )
        newest = self._changed.filter(F.col(own.named(_IS_LIVE))).select(f"{own.named(_NEWEST)}.*")
        return self._selected(kept).unionAll(self._selected(newest))

    def count(self) -> dict[int, int]:
        """
        Count the rows by vnode, reading little more than the column of vnodes.

        Of the base, only vnodes that a range begins or ends in need their keys; of rows that changed, their first
        change tells whether the base has them.
        """
        own = self._scan.own
        vnode = F.col(own.vnode)
        refused = F.raise_error(F.lit(DUPLICATE_KEY)).cast("long")
        moved = F.col(own.named(_IS_LIVE)).cast("long") - (~F.col(own.named(_FIRST_APPEARED))).cast("long")
        parts = [
            self._base.filter(condition).groupBy(vnode).agg(F.count("*").alias("rows"))
            for condition in self._split()
            if condition is not None
        ]
        parts.append(
            self._changed.groupBy(vnode).agg(
                F.sum(F.when(F.col(own.named(_IS_DOUBLE)), refused).otherwise(moved)).alias("rows")
            )
        )
        counted = reduce(DataFrame.unionAll, parts).groupBy(vnode).agg(F.sum("rows").alias("rows"))
        return {row[own.vnode]: row["rows"] for row in counted.collect() if row["rows"]}

    def require_sound(self) -> None:
        """Evaluate the rows, which fails as :meth:`rows` says; an attempt that finds them written would not notice."""
        self.rows().agg(F.count("*")).collect()

    def _selected(self, rows: DataFrame) -> DataFrame:
        return rows.select(*map(column, (self._scan.own.vnode, *self._job_rows.columns)))

    def _split(self) -> tuple[Column | None, Column | None]:
        """Return conditions for the vnodes that ranges hold whole, and for the rest of the ranges."""
        order = self._scan.order
        whole: list[KeyRange] = []
        partial: list[KeyRange] = []
        for covered in self._ranges:
            vnodes = self._scan.vnodes_of(covered)
            begins_within = covered.after is not None and len(covered.after) > 1
            ends_within = covered.up_to is not None and len(covered.up_to) > 1
            first, last = vnodes.start + begins_within, vnodes.stop - 1 - ends_within
            if first <= last:
                whole.append(KeyRange((first - 1,), (last,)))
            if first > last + 1:
                partial.append(covered)  # begins and ends in one vnode
                continue
            if begins_within:
                partial.append(KeyRange(covered.after, (vnodes.start,)))
            if ends_within:
                partial.append(KeyRange((vnodes.stop - 2,), covered.up_to))
        return (
            in_any(order, whole) if whole else None,
            in_any(order, partial) if partial else None,
        )


def _changed_keys(scan: VnodeScan) -> list[str]:
    return scan.own.numbered("changed", len(scan.order.fields))


def _files_of_changes(rows: int) -> int:
    """Return how many files to cut an epoch's changes into; a chunk reads only those around it."""
    return max(min(math.ceil(rows / FEWEST_CHANGES_PER_FILE), FILES_PER_CHUNK), math.ceil(rows / MOST_ROWS_PER_FILE), 1)


def _rows_per_file(rate_limit: int | None) -> int:
    if not rate_limit:
        return MOST_ROWS_PER_FILE
    return min(max(rate_limit // FILES_PER_CHUNK, FEWEST_ROWS_PER_FILE), MOST_ROWS_PER_FILE)
