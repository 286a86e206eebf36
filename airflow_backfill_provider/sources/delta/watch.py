"""Polls a Delta table for new versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.version_watch import VersionWatch
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.sources.watch import SourceWatch


class DeltaWatch(SourceWatch):
    """
    Polls a table by checking two files of its log.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    :param committed_at: returns when a version was committed.
    """

    def __init__(
        self, path: str, storage_options: Mapping[str, str] | None, committed_at: Callable[[Offset], dt.datetime]
    ) -> None:
        self._watch = VersionWatch(path, storage_options)
        self._committed_at = committed_at

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return the newest version, and the state of its commit file."""
        version = self._watch.latest()
        return None if version is None else offset_of(version), self._watch.written

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when a version was committed."""
        return self._committed_at(offset)
