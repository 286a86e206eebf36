"""``delta``: a Delta table with change data feed; an offset is a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream
from airflow_backfill_provider.sources.kind import SourceKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.delta.source import DeltaSource
    from airflow_backfill_provider.sources.reader import SourceReader


class Delta(SourceKind[DeltaUpstream, "DeltaSource"]):
    """Delta tables."""

    name: ClassVar[str] = DeltaUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = DeltaUpstream

    def open(self, upstream: DeltaUpstream, storage_options: Mapping[str, str] | None = None) -> DeltaSource:
        """Open a Delta table; its log is read on demand."""
        from airflow_backfill_provider.sources.delta.source import DeltaSource

        return DeltaSource(upstream.location, storage_options, upstream.catalog_table)

    def reader(self, spark: SparkSession, source: DeltaSource) -> SourceReader:
        """Return the reader of versions and of the change data feed."""
        from airflow_backfill_provider.sources.delta.reader import DeltaReader

        return DeltaReader(spark, source.location, source.empty_is_null, source.files_at)
