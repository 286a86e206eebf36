"""``delta``: a Delta table with change data feed; an offset is a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import SourceKind
from airflow_backfill_provider.sources.catalog_table import CatalogTableUpstream

if TYPE_CHECKING:
    from airflow_backfill_provider.sources.delta.source import DeltaSource


class DeltaUpstream(CatalogTableUpstream):
    """
    A Delta table with change data feed.

    :param table: the table's full name in a catalog, ``catalog.schema.table``. Spark looks up its location when the
        job is created.
    :param path: the table's location; it may be left out if ``table`` is given.
    """

    kind: ClassVar[str] = "delta"


class Delta(SourceKind):
    """Delta tables."""

    name: ClassVar[str] = DeltaUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = DeltaUpstream

    def open(self, upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> DeltaSource:
        """Open a Delta table; its log is read on demand."""
        from airflow_backfill_provider.sources.delta.source import DeltaSource

        return DeltaSource(upstream.location, storage_options, upstream.catalog_table)
