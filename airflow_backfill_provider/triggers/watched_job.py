"""
A job that triggers wait for, shared by all of them in one triggerer.

A thousand sensors ask the same few questions again and again. Whether anything changed since the last answer is told by
the versions of two small tables, which are asked for once for all who wait for the same job.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from typing import TYPE_CHECKING

from airflow_backfill_provider.hooks.backfill import BackfillHook

if TYPE_CHECKING:
    from airflow_backfill_provider.lake.version_watch import VersionWatch
    from airflow_backfill_provider.state.store import BackfillReader

Versions = tuple[int | None, ...]

FRESH_SECONDS = 1.0
"""For how long what one trigger asked is good enough for the others."""


class WatchedJob:
    """
    The control tables of one job.

    :param state: location of the control tables.
    :param backfill_conn_id: the connection with the object store's options.
    """

    def __init__(self, state: str, backfill_conn_id: str) -> None:
        self._state = state
        self._backfill_conn_id = backfill_conn_id
        self._reader: BackfillReader | None = None
        self._tables: tuple[VersionWatch, ...] = ()
        self._versions: Versions = ()
        self._asked = float("-inf")
        self._asking: asyncio.Lock | None = None

    def reader(self) -> BackfillReader:
        """
        Return what reads the tables.

        :raises InvalidConnectionError: if the connection cannot be used.
        """
        if self._reader is None:
            self._reader = BackfillHook(self._backfill_conn_id).reader(self._state)
        return self._reader

    async def versions(self) -> Versions:
        """
        Return the versions of the tables; as long as they stay the same, so does every answer.

        :raises InvalidConnectionError: if the connection cannot be used.
        :raises StorageUnavailableError: if the storage does not answer.
        """
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if time.monotonic() - self._asked > FRESH_SECONDS:
                self._versions = await asyncio.to_thread(self._read_versions)
                self._asked = time.monotonic()
            return self._versions

    def _read_versions(self) -> Versions:
        from airflow_backfill_provider.lake.version_watch import VersionWatch

        if not self._tables:
            reader = self.reader()
            self._tables = tuple(VersionWatch(table, reader.storage_options) for table in reader.watched_tables)
        return tuple(table.latest() for table in self._tables)


_watched: weakref.WeakValueDictionary[tuple[str, str], WatchedJob] = weakref.WeakValueDictionary()


def watched_job(state: str, backfill_conn_id: str) -> WatchedJob:
    """Return the job that all triggers of this process share which wait for it, for as long as one of them holds it."""
    key = (state, backfill_conn_id)
    job = _watched.get(key)
    if job is None:
        job = _watched[key] = WatchedJob(state, backfill_conn_id)
    return job
