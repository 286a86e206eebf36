"""Refuses columns that Delta cannot merge changes into."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import DELETION_VECTOR_COLUMNS, MERGE_COLUMNS

_DELETION_VECTORS = "enableDeletionVectors"


def require_mergeable(spark: SparkSession, schema: StructType, table_properties: Mapping[str, str]) -> None:
    """
    Refuse columns of a view that Delta cannot merge changes into.

    :param schema: the view's columns.
    :param table_properties: the table properties in the job's definition.
    :raises InvalidJobError: with the column.
    """
    default = spark.conf.get(f"spark.databricks.delta.properties.defaults.{_DELETION_VECTORS}", None)
    has_vectors = table_properties.get(f"delta.{_DELETION_VECTORS}", default or "false").lower() == "true"
    refused = MERGE_COLUMNS | DELETION_VECTOR_COLUMNS if has_vectors else MERGE_COLUMNS
    for name in schema.names:
        if name.lower() in refused:
            raise InvalidJobError(
                f"query: the column {quote(name)} has a name that Delta uses internally when it merges changes"
                f"{' into a table with deletion vectors' if has_vectors else ''}; give it another alias"
            )
