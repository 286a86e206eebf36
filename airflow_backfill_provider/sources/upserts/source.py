"""A Delta table of upserts as a job's upstream, without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.delta.description import DeltaDescription
from airflow_backfill_provider.sources.event_table.source import EventTableSource, path_value
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream
from airflow_backfill_provider.sources.upserts.layout import require_layout


class UpsertsSource(EventTableSource):
    """
    A table of upserts. An offset is a version of it, and all of its columns are columns of the rows.

    :param upstream: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, upstream: UpsertsUpstream, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(upstream, upstream.path, storage_options)
        self.upstream = upstream

    def at(self, offset: Offset | None = None) -> DeltaDescription:
        """
        Describe one version, by default the newest.

        :raises UpstreamNotFoundError: if there is no readable Delta table or no such version.
        :raises UpstreamError: if it lacks a column that says which row of a key counts.
        """
        described = super().at(offset)
        self.row_types(described.types)
        return described

    def row_types(self, types: Mapping[str, str]) -> Mapping[str, str]:
        """Return all columns of the table."""
        require_layout(self.location, types, self.upstream)
        return types

    def key_value(self, offset: Offset, name: str) -> str:
        """Return the column."""
        del offset
        return path_value((name,))
