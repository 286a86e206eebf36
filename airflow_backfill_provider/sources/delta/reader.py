"""Reads a Delta table on Spark: time travel, and the change data feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.hidden_rows import without_file_metadata


def _none(offset: Offset) -> Sequence[str]:
    del offset
    return ()


def _never(offset: Offset) -> bool:
    del offset
    return False


class DeltaReader(SourceReader):
    """
    Reads versions and changes of a Delta table.

    :param path: canonical location of the table.
    :param empty_is_null: returns the partition columns of a version in which an empty value is null.
    :param hides_rows: returns whether a version may have deletion vectors; it is as right without, and slower.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        empty_is_null: Callable[[Offset], Sequence[str]] = _none,
        hides_rows: Callable[[Offset], bool] = _never,
    ) -> None:
        self._spark = spark
        self._path = path
        self._empty_is_null = empty_is_null
        self._hides_rows = hides_rows

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows as of a version."""
        rows = self._spark.read.format("delta").option("versionAsOf", version_of(offset)).load(self._path)
        return self._with_nulls(without_file_metadata(rows) if self._hides_rows(offset) else rows, offset)

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
