"""A view that keeps former rows of units, such as groups and the joined rows of a lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.former_rows import began, began_at, beginning_at
from airflow_backfill_provider.spark.former_units import FormerUnits
from airflow_backfill_provider.spark.replaced_units import replace_following, table_before
from airflow_backfill_provider.spark.view import MaterializedView


class FormerUnitsView(MaterializedView):
    """
    The view of a job with ``keep: deleted`` or ``keep: history`` that is written by units.

    Writers give it the query's rows, as any other view. What a unit had before stays in it.

    :param job: the job's definition.
    """

    def __init__(self, spark: SparkSession, job: BackfillJob, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(spark, job.view_location, storage_options, job.partition_by)
        self._job = job

    def append(self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier) -> None:
        """Append a part of the chunk; its rows begin where they were read."""
        begun = beginning_at(rows, self._job.keep, self._point(barrier, barrier.chunk_offset))
        super().append(begun, part, identity, barrier)

    def replace_units(
        self,
        fresh: DataFrame,
        touched: DataFrame,
        unit_columns: Sequence[str],
        part: str,
        identity: ViewIdentity,
        barrier: Barrier,
    ) -> int | None:
        """Replace units by their new rows, and by those that end with the epoch."""
        known = table_before(self.table, part, identity, barrier)
        if known is None:
            return None
        former = FormerUnits(self._job.keep, fresh.schema, unit_columns)
        at = self._point(barrier, barrier.upstream.to_offset)

        def following(old: DataFrame) -> DataFrame:
            return former.after(old, fresh, at)

        units = former.touched(touched)
        return replace_following(self.table, known, units, former.replaced, following, part, identity, barrier)

    def _point(self, barrier: Barrier, offset: Offset) -> Column:
        """
        Return what the view has of an epoch.

        :param offset: the offset of the upstream, or of the one that leads, that the epoch writes rows as of.
        """
        by = self._job.valid_by
        if by is ValidBy.EPOCH:
            return began(by, F.lit(barrier.epoch))
        return began_at(by, offset, DeltaLog(self._job.upstream.location, self.storage_options))
