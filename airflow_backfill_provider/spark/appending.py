"""
Appends rows to a Delta table, or replaces them, once per transaction.

Before each commit, Delta's writer computes the state of the table, and it computes statistics of every row. On one
machine, Spark only writes the files of a plain table, and deltalake adds them, which takes much less. On a cluster or
in an object store, Delta's writer collects the files of all executors without moving them, so it appends the rows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.lake.log.added_files import AppendTransaction, add_files, open_plain
from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.lake.log.uncommitted import LOG
from airflow_backfill_provider.sources.shared.one_machine import lies_here
from airflow_backfill_provider.spark.staged_files import StagedFiles


def append_rows(
    rows: DataFrame,
    location: str,
    transaction: AppendTransaction,
    staged: StagedFiles,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """
    Append rows to a table, unless it has seen the transaction.

    :param location: the table's canonical location.
    :param staged: where the files of a local table are written first.
    :raises BackfillError: if deltalake cannot add the files.
    :raises PySparkException: if Spark cannot write them.
    """
    table = _plain(rows, location, storage_options)
    if table is None:
        append_by_delta(rows, location, transaction)
        return
    with staged.written(rows) as files:
        reached(CrashPoint.BEFORE_FILES_COMMIT)
        if not add_files(location, files, table, transaction, storage_options):
            staged.discard(files)


def append_by_delta(rows: DataFrame, location: str, transaction: AppendTransaction) -> None:
    """Append rows by Delta's own writer, unless the table has seen the transaction."""
    _written(rows, transaction).mode("append").save(location)


def overwrite_by_delta(
    rows: DataFrame, location: str, transaction: AppendTransaction, partitions: Sequence[str]
) -> None:
    """
    Replace a table's rows and its columns, unless it has seen the transaction; table id and properties stay.

    :param partitions: its partition columns; without them, it would have no partitions any more.
    """
    overwriting = _written(rows, transaction).mode("overwrite").option("overwriteSchema", "true")
    overwriting.partitionBy(*partitions).save(location)


def _written(rows: DataFrame, transaction: AppendTransaction) -> DataFrameWriter:
    return (
        rows.write.format("delta")
        .option("txnAppId", transaction.name)
        .option("txnVersion", transaction.version)
        .option("userMetadata", transaction.user_metadata)
    )


def plain_here(
    spark: SparkSession, location: str, storage_options: Mapping[str, str] | None = None
) -> PlainTable | None:
    """
    Return a table if this process can change its log itself; ``None`` if Delta's own writer has to write to it.

    :param location: the table's canonical location.
    """
    if not (lies_here(spark, location) and _may_write(location)):
        return None
    return open_plain(location, storage_options)


def _plain(rows: DataFrame, location: str, storage_options: Mapping[str, str] | None) -> PlainTable | None:
    """Return the table if the rows' files can be added to it; ``None`` if Delta's writer has to append the rows."""
    table = plain_here(rows.sparkSession, location, storage_options)
    return table if table is not None and table.takes(rows.schema.jsonValue()["fields"]) else None


def _may_write(location: str) -> bool:
    """Return whether this process may write what the process of Spark wrote; both may run as different users."""
    return all(os.access(folder, os.W_OK) for folder in (Path(location), Path(location, LOG)))
