"""Erases the former rows of some keys from a view."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.lake.tables.view_identity import require_view
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.sources.shared.by_key import decoded_keys
from airflow_backfill_provider.spark.former_rows import is_former
from airflow_backfill_provider.spark.stamps import FORGOTTEN
from airflow_backfill_provider.spark.view import MaterializedView


def erase_former_rows(
    spark: SparkSession, settings: JobSettings, view: MaterializedView, keys: Sequence[EncodedPosition]
) -> int:
    """
    Erase the former rows of some keys, in one commit.

    The keys are rows of a relation, and not values of the statement, which Delta's log would keep.

    :returns: how many rows these were.
    :raises MaterializedViewError: if the view is missing or replaced.
    """
    identity, table = require_view(settings, view.storage_options), view.table
    units = resolved_query_of(settings).units(settings, by_key=False)
    outputs = units.outputs
    relation = f"backfill_forgotten_{identity.incarnation}"
    decoded_keys(spark, units.order, keys).toDF(*outputs).createOrReplaceTempView(relation)
    same = " AND ".join(f"view.{quote(name)} <=> forgotten.{quote(name)}" for name in outputs)
    former = is_former(settings.definition.keep, "view.")
    try:
        with table.committing({"event": FORGOTTEN, "incarnation": identity.incarnation}):
            (counted,) = spark.sql(
                f"MERGE INTO {table.sql_name} AS view USING {relation} AS forgotten ON {same} AND {former} "
                "WHEN MATCHED THEN DELETE"
            ).collect()
    finally:
        table.log.written_to()
        spark.catalog.dropTempView(relation)
    return int(counted["num_deleted_rows"])
