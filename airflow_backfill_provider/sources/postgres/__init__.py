"""
``postgres``: a table in a PostgreSQL database; an offset is a position in the database's log.

Its rows can only be read as they are now. Its changes come from a logical replication slot, and are landed in a change
log, from which every window of them can be read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.shared.postgresql import JDBC_PACKAGE, require_driver
from airflow_backfill_provider.sources.shared.postgresql.spark_errors import UNCHANGED_VALUE, database_error
from airflow_backfill_provider.sources.spark_failures import Refusal, SparkFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.postgres.source import PostgresSource
    from airflow_backfill_provider.sources.reader import SourceReader


class Postgres(SourceKind[PostgresUpstream, "PostgresSource"]):
    """Tables in PostgreSQL databases."""

    name: ClassVar[str] = PostgresUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = PostgresUpstream
    spark_packages: ClassVar[Sequence[str]] = (JDBC_PACKAGE,)
    refusals: ClassVar[Sequence[Refusal]] = (UNCHANGED_VALUE,)

    def open(self, upstream: PostgresUpstream, storage_options: Mapping[str, str] | None = None) -> PostgresSource:
        """Open a table; the database is asked on demand."""
        require_driver(self.name)
        from airflow_backfill_provider.sources.postgres.source import PostgresSource
        from airflow_backfill_provider.sources.postgres.table import PostgresTable

        return PostgresSource(PostgresTable(upstream, storage_options))

    def explained(self, failure: SparkFailure, what: str) -> BackfillError | None:
        """Return the error of a database over whose connection rows are read."""
        return database_error(failure, what)

    def reader(self, spark: SparkSession, source: PostgresSource) -> SourceReader:
        """Return the reader of the change log, and of the table's present rows."""
        from airflow_backfill_provider.sources.postgres.reader import PostgresReader

        return PostgresReader(spark, source)
