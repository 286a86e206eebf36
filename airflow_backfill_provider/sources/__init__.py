"""The seam of sources: what an upstream is, and the registered kinds."""

from collections.abc import Mapping
from typing import cast

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.append_only import AppendOnly
from airflow_backfill_provider.sources.base import Source, SourceKind
from airflow_backfill_provider.sources.debezium import Debezium
from airflow_backfill_provider.sources.delta import Delta
from airflow_backfill_provider.sources.files import Files
from airflow_backfill_provider.sources.kafka import Kafka
from airflow_backfill_provider.sources.postgres import Postgres
from airflow_backfill_provider.sources.upserts import Upserts

KINDS = cast("kinds.Kinds[SourceKind]", kinds.SOURCES)
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
    """
    return KINDS.named(upstream.kind).open(upstream, storage_options)


__all__ = ["KINDS", "Source", "SourceKind", "open_source"]
