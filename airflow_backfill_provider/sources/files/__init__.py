"""``files``: a folder into which somebody puts files of JSON lines, CSV or Parquet; each file is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.files.definition import UNREADABLE_LINE, FilesUpstream
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.spark_failures import Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.files.source import FilesSource
    from airflow_backfill_provider.sources.reader import SourceReader


class Files(SourceKind[FilesUpstream, "FilesSource"]):
    """Folders of files."""

    name: ClassVar[str] = FilesUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = FilesUpstream
    refusals: ClassVar[Sequence[Refusal]] = (UNREADABLE_LINE,)

    def open(self, upstream: FilesUpstream, storage_options: Mapping[str, str] | None = None) -> FilesSource:
        """Open a folder; it is listed on demand."""
        from airflow_backfill_provider.sources.files.source import FilesSource

        return FilesSource(upstream, storage_options)

    def reader(self, spark: SparkSession, source: FilesSource) -> SourceReader:
        """Return the reader of files."""
        from airflow_backfill_provider.sources.files.reader import FilesReader

        return FilesReader(spark, source)
