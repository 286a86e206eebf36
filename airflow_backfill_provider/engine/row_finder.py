"""Finds on Spark what a question about one row needs and the log alone does not tell."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyOrder
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.engine.tables import TableOpener
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys, with_keys
from airflow_backfill_provider.spark.predicates import without_pushdown
from airflow_backfill_provider.spark.query import run_query
from airflow_backfill_provider.spark.session import pin_settings
from airflow_backfill_provider.spark.spark_errors import comparison_errors

_PATH = "__file_path"


class SparkRowFinder:
    """
    Answers on Spark.

    :param spark: the session.
    :param tables: opens the job's tables.
    """

    def __init__(self, spark: SparkSession, tables: TableOpener) -> None:
        self._spark = spark
        self._tables = tables

    def files_with(self, location: str, version: int, order: KeyOrder, key: EncodedPosition) -> list[str]:
        """Return the files of a version of a table that have rows with a key."""
        pin_settings(self._spark)
        with comparison_errors(f"version {version} of {location}"):
            rows = self._spark.read.format("delta").option("versionAsOf", version).load(location)
            wanted = decoded_keys(self._spark, order, [key])
            placed = rows.select(*map(column, order.names), F.col("_metadata.file_path").alias(_PATH))
            found = with_keys(placed, wanted, order.names).select(_PATH).distinct().collect()
            return [_within(row[_PATH], location) for row in found]

    def conditions_met(
        self, settings: JobSettings, offset: Offset, key: EncodedPosition, conditions: Sequence[str]
    ) -> list[bool]:
        """Return for each condition whether the upstream's row with a key meets it."""
        pin_settings(self._spark)
        with comparison_errors(f"the upstream of job {settings.job['name']}"):
            row = self._row(settings, offset, key)
            met = row.select(*(F.expr(text).alias(f"met_{number}") for number, text in enumerate(conditions)))
            return [bool(value) for value in met.collect()[0]]

    def passes(self, settings: JobSettings, offset: Offset, key: EncodedPosition) -> bool:
        """Return whether the query gives a row for the upstream's row with a key."""
        pin_settings(self._spark)
        with comparison_errors(f"the upstream of job {settings.job['name']}"):
            job, row = settings.definition, self._row(settings, offset, key)
            query = JobQuery.of(job, query_of(job), settings.upstream, settings.state_columns)
            used = row.select(*map(column, self._tables.open(settings).lead_rows.columns))
            return not run_query(self._spark, query, used, {}).isEmpty()

    def _row(self, settings: JobSettings, offset: Offset, key: EncodedPosition) -> DataFrame:
        rows = self._tables.open(settings).lead_rows
        wanted = decoded_keys(self._spark, settings.key_order, [key])
        return with_keys(without_pushdown(rows.at(offset)), wanted, settings.key_order.names)


def _within(path: str, location: str) -> str:
    """Return a file's path in its table, from its address."""
    folder = location.partition("://")[2] or location
    return unquote(path).partition(f"{folder.rstrip('/')}/")[2]
