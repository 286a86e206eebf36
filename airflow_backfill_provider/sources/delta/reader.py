"""Reads a Delta table on Spark: time travel, and the change data feed."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.reader import SourceReader


class DeltaReader(SourceReader):
    """
    Reads versions and changes of a Delta table.

    :param path: canonical location of the table.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path

    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows as of a version."""
        return self._spark.read.format("delta").option("versionAsOf", version_of(offset)).load(self._path)

    def empty(self) -> DataFrame:
        """Return the newest version's columns, without rows."""
        return self._spark.read.format("delta").load(self._path).limit(0)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the change data feed of the versions in ``(after, up_to]``."""
        return (
            self._spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", version_of(after) + 1)
            .option("endingVersion", version_of(up_to))
            .load(self._path)
        )
