"""The rows that a view's table begins with."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.lake.log.schemas import HIDDEN
from airflow_backfill_provider.spark.table_rows import rows_at
from airflow_backfill_provider.spark.view_columns import without_metadata


def first_rows_of(
    spark: SparkSession,
    schema: StructType,
    first_rows: FirstRows | None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """
    Return the rows of a new table, with columns as the query has them.

    :param schema: the query's columns.
    :param first_rows: the rows; ``None`` for no rows.
    :raises MaterializedViewError: if they have other columns than the query.
    """
    columns = without_metadata(schema)
    if first_rows is None:
        return spark.createDataFrame([], columns)
    rows = rows_at(spark, first_rows.location, first_rows.version, storage_options)
    if first_rows.adopted is not None:
        # Something else made the rows, so they have no state of groups yet.
        rows = rows.withColumns(
            {field.name: F.lit(None).cast(field.dataType) for field in columns if HIDDEN in field.metadata}
        )
    found = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    expected = {field.name: field.dataType.simpleString() for field in columns.fields}
    if found != expected:
        different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        raise MaterializedViewError(
            f"materialized_view: in version {first_rows.version} of {first_rows.location}, {', '.join(different)} "
            "differs from what the query gives; rebuild the job"
        )
    return rows.select(*(F.col(quote(field.name)).alias(field.name, metadata=field.metadata) for field in columns))
