"""``append_only``: a Delta table without change data feed, to which rows are only appended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from airflow_backfill_provider.sources.kind import SourceKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.append_only.source import AppendOnlySource
    from airflow_backfill_provider.sources.reader import SourceReader


class AppendOnly(SourceKind[AppendOnlyUpstream, "AppendOnlySource"]):
    """Delta tables to which rows are only appended."""

    name: ClassVar[str] = AppendOnlyUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = AppendOnlyUpstream

    def open(self, upstream: AppendOnlyUpstream, storage_options: Mapping[str, str] | None = None) -> AppendOnlySource:
        """Open a Delta table; its log is read on demand."""
        from airflow_backfill_provider.sources.append_only.source import AppendOnlySource

        return AppendOnlySource(upstream, storage_options)

    def reader(self, spark: SparkSession, source: AppendOnlySource) -> SourceReader:
        """Return the reader of data files."""
        from airflow_backfill_provider.sources.append_only.reader import AppendOnlyReader

        return AppendOnlyReader(spark, source)
