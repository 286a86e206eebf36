"""Counts the buckets that an epoch touches again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.sources.shared.by_key import with_keys
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
        self._replace(self._touched(changes), barrier, CHANGES, identity, with_chunk=False)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        self._replace(self._buckets(rows), barrier, snapshot_part(part), identity, with_chunk=True)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Replace the units that the barrier names; if it names vnodes, all of them."""
        units = self._context.spark.createDataFrame([*barrier.repair.units], "bucket string")
        touched = units.select(F.col("bucket").cast("bigint").alias("bucket"))
        if barrier.repair.vnodes:
            view = self._context.view.table.read().select("bucket")
            touched = touched.unionAll(self._buckets(self._context.read_set(barrier, with_chunk=False))).unionAll(view)
        if changes is not None:
            touched = touched.unionAll(self._touched(changes))
        self._replace(touched, barrier, REPAIR, identity, with_chunk=False)

    def _touched(self, changes: Changes) -> DataFrame:
        return self._buckets(self._context.new(changes)).unionAll(self._buckets(self._context.old(changes)))

    def _buckets(self, rows: DataFrame) -> DataFrame:
        return rows.select(F.expr(self._query.group).alias("bucket"))

    def _replace(
        self, touched: DataFrame, barrier: Barrier, part: str, identity: ViewIdentity, *, with_chunk: bool
    ) -> None:
        """Count some buckets again, over all rows that the view consists of."""
        counted = self._context.run(self._context.read_set(barrier, with_chunk=with_chunk))
        fresh = with_keys(counted, touched, ["bucket"])
        self._context.view.replace_units(fresh, touched, ["bucket"], part, identity, barrier)
