"""The seam of sources: what an upstream is, and the registered kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.append_only import AppendOnly
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.debezium import Debezium
from airflow_backfill_provider.sources.delta import Delta
from airflow_backfill_provider.sources.files import Files
from airflow_backfill_provider.sources.kafka import Kafka
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.postgres import Postgres
from airflow_backfill_provider.sources.spark_failures import OF_ANY_KIND, Refusal, SparkFailure
from airflow_backfill_provider.sources.upserts import Upserts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.reader import SourceReader

KINDS = cast("kinds.Kinds[SourceKind[Any, Any]]", kinds.SOURCES)
"""All kinds of sources. The first one is the default in a job's definition."""

KINDS.register(Delta())
KINDS.register(Postgres())
KINDS.register(Debezium())
KINDS.register(Kafka())
KINDS.register(AppendOnly())
KINDS.register(Files())
KINDS.register(Upserts())


def open_source(upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> Source:
    """
    Open the upstream of a job.

    :param storage_options: options of the object store, as deltalake takes them.
    :raises InvalidJobError: if it is named in a catalog, and its location is not known yet.
    """
    if not upstream.is_placed:
        raise InvalidJobError(
            f"upstream.table: the location of {upstream.catalog_table} is not known before the job is created; create "
            "the job, or give upstream.path, too"
        )
    source: Source = KINDS.named(upstream.kind).open(upstream, storage_options)
    return source


def explained(failure: SparkFailure, what: str) -> BackfillError | None:
    """Return the error for users, if some kind of source knows an error of Spark; see :meth:`SourceKind.explained`."""
    return next((error for kind in KINDS if (error := kind.explained(failure, what)) is not None), None)


def refusals() -> tuple[Refusal, ...]:
    """Return what readers refuse about values and rows."""
    return tuple(dict.fromkeys([*OF_ANY_KIND, *(refusal for kind in KINDS for refusal in kind.refusals)]))


def spark_packages() -> tuple[str, ...]:
    """Return what Spark needs in addition to its own jars to read upstreams of all kinds, each once."""
    return tuple(dict.fromkeys(package for kind in KINDS for package in kind.spark_packages))


def reader_of(upstream: UpstreamDefinition, source: Source, spark: SparkSession) -> SourceReader:
    """
    Return the reader on Spark of an opened upstream.

    :param upstream: the definition.
    :param source: the upstream, as :func:`open_source` opened it.
    """
    return KINDS.named(upstream.kind).reader(spark, source)


__all__ = ["KINDS", "Source", "SourceKind", "explained", "open_source", "reader_of", "refusals", "spark_packages"]
