"""Reads a Delta table on Spark: time travel, and the change data feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.stored_keys import StoredKeys
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.hidden_rows import without_file_metadata
from airflow_backfill_provider.sources.shared.one_machine import lies_here


def _none(offset: Offset) -> Sequence[str]:
    del offset
    return ()


class DeltaReader(SourceReader):
    """
    Reads versions and changes of a Delta table.

    :param path: canonical location of the table.
    :param empty_is_null: returns the partition columns of a version in which an empty value is null.
    :param files_at: returns a version's data files. With them, a table with deletion vectors is read faster, and some
        keys are read without Spark.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        empty_is_null: Callable[[Offset], Sequence[str]] = _none,
        files_at: Callable[[Offset], DataFiles] | None = None,
    ) -> None:
        self._spark = spark
        self._path = path
        self._empty_is_null = empty_is_null
        self._files_at = files_at

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows as of a version."""
        rows = self._spark.read.format("delta").option("versionAsOf", version_of(offset)).load(self._path)
        may_hide_rows = self._files_at is not None and self._files_at(offset).may_hide_rows
        return self._with_nulls(without_file_metadata(rows) if may_hide_rows else rows, offset)

    def stored_keys(self, offset: Offset, order: KeyOrder) -> StoredKeys | None:
        """Return the keys of a version's rows, if Spark itself would read them on this machine, from its own disk."""
        if self._files_at is None or not lies_here(self._spark, self._path):
            return None
        return StoredKeys.of(self._files_at(offset), order)

    def empty(self) -> DataFrame:
        """Return the newest version's columns, without rows."""
        return self._spark.read.format("delta").load(self._path).limit(0)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the change data feed of the versions in ``(after, up_to]``."""
        changes = (
            self._spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", version_of(after) + 1)
            .option("endingVersion", version_of(up_to))
            .load(self._path)
        )
        return self._with_nulls(changes, up_to)

    def _with_nulls(self, rows: DataFrame, offset: Offset) -> DataFrame:
        """
        Return rows with null in place of an empty value of a partition column.

        In Delta's log both are one value, and some writers write it as an empty text. Spark reads that as a text, until
        it rewrites the file with null.
        """
        nulled = {name: F.when(F.length(column(name)) > 0, column(name)) for name in self._empty_is_null(offset)}
        return rows.withColumns(nulled) if nulled else rows
