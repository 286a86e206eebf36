"""Counts the buckets that an epoch touches again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedRange
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import Changes, ViewWriter, WriterContext
from airflow_backfill_provider.spark.merging import merge_into
from airflow_backfill_provider.spark.net_changes import old_images
from airflow_backfill_provider.spark.predicates import without_data_skipping
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR, snapshot_part
from tests.toy_groups import TallyQuery


class TallyWriter(ViewWriter):
    """Writes one job's view."""

    def __init__(self, context: WriterContext, query: TallyQuery) -> None:
        self._context = context
        self._rows = context.job_rows
        self._query = query

    def schema(self) -> StructType:
        return self._context.run(self._rows.empty()).schema

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> None:
        new = changes.net.filter(F.col(self._rows.own.is_upsert))
        old = old_images(self._rows, barrier.changes_after, barrier.upstream.to_offset, changes.wanted)
        touched = self._buckets(new).unionAll(self._buckets(old))
        self._count(touched, barrier.read_before, CHANGES, identity, barrier)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        chunk = tuple(pinned for pinned_part in barrier.parts for pinned in pinned_part.ranges)
        self._count(self._buckets(rows), (*barrier.read_before, *chunk), snapshot_part(part), identity, barrier)

    def repair(self, identity: ViewIdentity, barrier: Barrier) -> None:
        """Rewrite the units that the barrier names; if it names vnodes, all of them."""
        units = self._context.spark.createDataFrame([*barrier.repair.units], "touched string")
        touched = units.select(F.col("touched").cast("bigint"))
        if barrier.repair.vnodes:
            view = self._context.view.table.read().select(F.col("bucket").alias("touched"))
            touched = touched.unionAll(self._buckets(self._read(barrier.read_before, barrier))).unionAll(view)
        self._count(touched, barrier.read_before, REPAIR, identity, barrier)

    def _buckets(self, rows: DataFrame) -> DataFrame:
        return rows.select(F.expr(self._query.group).alias("touched"))

    def _read(self, ranges: Sequence[PinnedRange], barrier: Barrier) -> DataFrame:
        return self._rows.at(barrier.upstream.to_offset).filter(without_data_skipping(self._rows.is_read(ranges)))

    def _count(
        self, touched: DataFrame, ranges: Sequence[PinnedRange], part: str, identity: ViewIdentity, barrier: Barrier
    ) -> None:
        """Replace the counts of some buckets by their counts over all rows in some ranges."""
        counted = self._context.run(self._read(ranges, barrier))
        same = F.col("touched").eqNullSafe(counted["bucket"])
        merged = touched.distinct().join(counted, same, "left").select(F.col("touched").alias("bucket"), "n")
        merge_into(
            self._context.view.table,
            merged,
            ["view.bucket <=> change.bucket"],
            "WHEN MATCHED AND change.n IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET n = change.n "
            "WHEN NOT MATCHED AND change.n IS NOT NULL THEN INSERT (bucket, n) VALUES (change.bucket, change.n)",
            part,
            identity,
            barrier,
        )
