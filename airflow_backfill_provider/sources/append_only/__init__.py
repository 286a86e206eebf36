"""``append_only``: a Delta table without change data feed, to which rows are only appended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import SourceKind
from airflow_backfill_provider.sources.catalog_table import CatalogTableUpstream
from airflow_backfill_provider.sources.file_log.definition import FileLogUpstream

if TYPE_CHECKING:
    from airflow_backfill_provider.sources.append_only.source import AppendOnlySource


class AppendOnlyUpstream(FileLogUpstream, CatalogTableUpstream):
    """
    A Delta table to which rows are only appended. It stands in a job without the kind's name, like any Delta table.

    :param table: the table's full name in a catalog, ``catalog.schema.table``.
    :param path: the table's location; it may be left out if ``table`` is given.
    :param append_only: says that the table needs no change data feed.
    """

    kind: ClassVar[str] = "append_only"

    append_only: Literal[True] = True

    @classmethod
    def claims(cls, fields: Mapping[str, object]) -> bool:
        """Return whether the fields say that rows are only appended."""
        return "append_only" in fields

    @property
    def watched(self) -> str:
        """The table and the file log, because a poll looks at both."""
        return f"{self.location}, {self.file_log}"


class AppendOnly(SourceKind):
    """Delta tables to which rows are only appended."""

    name: ClassVar[str] = AppendOnlyUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = AppendOnlyUpstream

    def open(self, upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> AppendOnlySource:
        """Open a Delta table; its log is read on demand."""
        from airflow_backfill_provider.sources.append_only.source import AppendOnlySource

        if not isinstance(upstream, AppendOnlyUpstream):
            raise TypeError(f"{upstream.kind} is not the definition of a table to which rows are only appended")
        return AppendOnlySource(upstream, storage_options)
