"""``append_only``: a Delta table without change data feed, to which rows are only appended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import StrictStr, field_validator

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import SourceKind
from airflow_backfill_provider.sources.file_log.definition import FileLogUpstream

if TYPE_CHECKING:
    from airflow_backfill_provider.sources.append_only.source import AppendOnlySource


class AppendOnlyUpstream(FileLogUpstream):
    """
    A Delta table to which rows are only appended. It stands in a job without the kind's name, like any Delta table.

    :param path: the table's location.
    :param append_only: says that the table needs no change data feed.
    """

    kind: ClassVar[str] = "append_only"

    path: StrictStr
    append_only: Literal[True] = True

    _canonical_path = field_validator("path")(location.canonical_location)

    @classmethod
    def claims(cls, fields: Mapping[str, object]) -> bool:
        """Return whether the fields say that rows are only appended."""
        return "append_only" in fields

    @property
    def location(self) -> str:
        """The path."""
        return self.path

    @property
    def watched(self) -> str:
        """The table and the file log, because a poll looks at both."""
        return f"{self.path}, {self.file_log}"

    @property
    def folders(self) -> Mapping[str, str]:
        """The path."""
        return {"upstream.path": self.path}


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
