"""Polls a Delta table for appended rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Mapping

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.log.version_watch import VersionWatch
from airflow_backfill_provider.sources.watch import SourceWatch


class AppendOnlyWatch(SourceWatch):
    """
    Polls a table and its file log by checking two files of each.

    :param table: the table's location.
    :param file_log: the file log's location.
    :param newest: returns the offset after all rows.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(
        self, table: str, file_log: str, newest: Callable[[], Offset], storage_options: Mapping[str, str]
    ) -> None:
        self._table = VersionWatch(table, storage_options)
        self._log = VersionWatch(file_log, storage_options)
        self._look_through = newest
        self._newest: CachedAnswer[tuple[Offset, dt.datetime]] = CachedAnswer()
        self._seen_at: dt.datetime | None = None

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return the offset after all rows, and the state of the table's newest commit file."""
        version = self._table.latest()
        if version is None:
            return None, None
        # With another file log, the same rows have other places.
        key = (version, self._table.written, self._log.latest(), self._log.written)
        offset, self._seen_at = self._newest.get(key, self._look_closer)
        return offset, self._table.written

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when the newest offset was found."""
        del offset
        return self._seen_at or dt.datetime.now(dt.UTC)

    def _look_closer(self) -> tuple[Offset, dt.datetime]:
        return self._look_through(), dt.datetime.now(dt.UTC)
