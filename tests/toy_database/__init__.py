"""
``toy``: a table in a SQLite file, as an example of a kind of source for a database.

All of the kind is in this folder. One line registers it: ``KINDS.register(Toy())``. The rows of the table can only be
read as they are now. The file also has a log of changes, which a change log keeps for the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import BackfillError, DatabaseUnavailableError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.spark_failures import Refusal, SparkFailure
from tests.toy_database.definition import LEFT_OUT, ToyUpstream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.reader import SourceReader
    from tests.toy_database.source import ToySource


class Toy(SourceKind[ToyUpstream, "ToySource"]):
    """Tables in SQLite files."""

    name: ClassVar[str] = ToyUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = ToyUpstream
    spark_packages: ClassVar[Sequence[str]] = ("org.example:toy-driver:1.0",)
    refusals: ClassVar[Sequence[Refusal]] = (LEFT_OUT,)

    def open(self, upstream: ToyUpstream, storage_options: Mapping[str, str] | None = None) -> ToySource:
        from tests.toy_database.source import ToySource

        return ToySource(upstream, storage_options)

    def explained(self, failure: SparkFailure, what: str) -> BackfillError | None:
        if "org.example.ToyException: gone away" in failure.text and not failure.is_of_a_row:
            return DatabaseUnavailableError(f"{what}: the toy database went away; try again")
        return None

    def reader(self, spark: SparkSession, source: ToySource) -> SourceReader:
        from tests.toy_database.reader import ToyReader

        return ToyReader(spark, source)
