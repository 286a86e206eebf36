"""``delta``: a Delta table with change data feed; an offset is a version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import StrictStr, field_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import SourceKind

if TYPE_CHECKING:
    from airflow_backfill_provider.sources.delta.source import DeltaSource


class DeltaUpstream(UpstreamDefinition):
    """
    A Delta table with change data feed.

    :param path: the table's location.
    """

    kind: ClassVar[str] = "delta"

    path: StrictStr

    _canonical_path = field_validator("path")(location.canonical_location)

    @property
    def location(self) -> str:
        """The path."""
        return self.path

    @property
    def folders(self) -> Mapping[str, str]:
        """The path."""
        return {"upstream.path": self.path}


class Delta(SourceKind):
    """Delta tables."""

    name: ClassVar[str] = DeltaUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = DeltaUpstream

    def open(self, upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> DeltaSource:
        """Open a Delta table; its log is read on demand."""
        from airflow_backfill_provider.sources.delta.source import DeltaSource

        return DeltaSource(upstream.location, storage_options)
