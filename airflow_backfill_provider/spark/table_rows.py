"""Reads the rows of the package's own Delta tables, such as the view."""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys
from airflow_backfill_provider.lake.tables.table_properties import table_properties
from airflow_backfill_provider.sources.shared.hidden_rows import without_file_metadata
from airflow_backfill_provider.sources.shared.one_machine import lies_here


def rows_at(
    spark: SparkSession, location: str, version: int, storage_options: Mapping[str, str] | None = None
) -> DataFrame:
    """
    Return the rows of a version of a table.

    :param location: the table's canonical location.
    """
    rows = spark.read.format("delta").option("versionAsOf", version).load(location)
    return without_file_metadata(rows) if has_deletion_vectors(location, storage_options) else rows


def stored_keys_at(spark: SparkSession, location: str, version: int, key: KeyOrder) -> StoredKeys | None:
    """Return values of some columns in all rows of a version, read without Spark; ``None`` if Spark has to."""
    if not lies_here(spark, location):
        return None
    try:
        files = DataFiles(DeltaTable(location, version=version), location, {})
    except DeltaError:
        return None
    return StoredKeys.of(files, key)


def has_deletion_vectors(location: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """Return whether a table hides rows by deletion vectors from now on."""
    return table_properties(location, storage_options).get("delta.enableDeletionVectors", "").lower() == "true"
