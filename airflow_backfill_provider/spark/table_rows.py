"""Reads the rows of the package's own Delta tables, such as the view."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.lake.tables.table_properties import table_properties
from airflow_backfill_provider.sources.shared.hidden_rows import without_file_metadata


def rows_at(
    spark: SparkSession, location: str, version: int, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """
    Return the rows of a version of a table.

    :param location: the table's canonical location.
    """
    rows = spark.read.format("delta").option("versionAsOf", version).load(location)
    return without_file_metadata(rows) if has_deletion_vectors(location, storage_options) else rows


def has_deletion_vectors(location: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether a table hides rows by deletion vectors from now on."""
    return table_properties(location, storage_options).get("delta.enableDeletionVectors", "").lower() == "true"
