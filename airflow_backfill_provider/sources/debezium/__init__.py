"""
``debezium``: a Delta table into which somebody lands Debezium's events of one table; an offset is a version of it.

The table of events is the change log. Its rows are the events themselves, as envelopes or flattened, maybe out of order
and several times. The rows of the database's table come from the events, which begin with a snapshot, or else from the
database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.debezium.definition import DebeziumUpstream
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.shared.postgresql import JDBC_PACKAGE, require_driver
from airflow_backfill_provider.sources.shared.postgresql.spark_errors import UNCHANGED_VALUE, database_error
from airflow_backfill_provider.sources.spark_failures import Refusal, SparkFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.debezium.source import DebeziumSource
    from airflow_backfill_provider.sources.reader import SourceReader


class Debezium(SourceKind[DebeziumUpstream, "DebeziumSource"]):
    """Delta tables of Debezium's events."""

    name: ClassVar[str] = DebeziumUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = DebeziumUpstream
    spark_packages: ClassVar[Sequence[str]] = (JDBC_PACKAGE,)
    refusals: ClassVar[Sequence[Refusal]] = (UNCHANGED_VALUE,)

    def open(self, upstream: DebeziumUpstream, storage_options: Mapping[str, str] | None = None) -> DebeziumSource:
        """Open a table of events; its log is read on demand, and the database is asked on demand."""
        from airflow_backfill_provider.sources.debezium.source import DebeziumSource

        if upstream.snapshot is not None:
            require_driver(self.name)
        return DebeziumSource(upstream, storage_options)

    def explained(self, failure: SparkFailure, what: str) -> BackfillError | None:
        """Return the error of a database from which present rows are read."""
        return database_error(failure, what)

    def reader(self, spark: SparkSession, source: DebeziumSource) -> SourceReader:
        """Return the reader of events, and of the database's present rows."""
        from airflow_backfill_provider.sources.debezium.reader import DebeziumReader

        return DebeziumReader(spark, source)
