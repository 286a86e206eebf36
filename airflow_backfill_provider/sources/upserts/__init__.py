"""
``upserts``: a Delta table to which somebody appends the new state of keys; an offset is a version of it.

It is what a compacted topic is after it was landed: the last row of a key counts, and a row may say that the key is
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.reader import SourceReader
    from airflow_backfill_provider.sources.upserts.source import UpsertsSource


class Upserts(SourceKind[UpsertsUpstream, "UpsertsSource"]):
    """Delta tables of upserts."""

    name: ClassVar[str] = UpsertsUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = UpsertsUpstream

    def open(self, upstream: UpsertsUpstream, storage_options: Mapping[str, str] | None = None) -> UpsertsSource:
        """Open a table of upserts; its log is read on demand."""
        from airflow_backfill_provider.sources.upserts.source import UpsertsSource

        return UpsertsSource(upstream, storage_options)

    def reader(self, spark: SparkSession, source: UpsertsSource) -> SourceReader:
        """Return the reader of upserts."""
        from airflow_backfill_provider.sources.upserts.reader import UpsertsReader

        return UpsertsReader(spark, source)
