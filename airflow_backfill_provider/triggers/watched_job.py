"""
A job that triggers wait for. All triggers of one triggerer share it.

Many sensors check the same few conditions again and again. The versions of two small tables show whether anything has
changed since the last check. Triggers that wait for the same job share these versions and the results of checks.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from cachetools import LRUCache

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.triggers.conditions import Condition, Observation, observe

if TYPE_CHECKING:
    from airflow_backfill_provider.lake.log.version_watch import Versions, VersionsWatch
    from airflow_backfill_provider.state.backfill_reader import BackfillReader

Answer = TypeVar("Answer")

FRESH_SECONDS = 1.0
"""How long other triggers use the versions that one trigger has read."""

LOOK_ANYWAY_SECONDS = 120.0
"""After this time, read again even if no version changed: a table can lose files without a new version."""

MOST_ANSWERS = 256


class WatchedJob:
    """
    The control tables of one job.

    :param state: location of the control tables.
    :param backfill_conn_id: the connection with the object store's options.
    """

    def __init__(self, state: str, backfill_conn_id: str) -> None:
        self._state = state
        self._backfill_conn_id = backfill_conn_id
        self._versions: CachedAnswer[Versions] = CachedAnswer(FRESH_SECONDS)
        self._answers: LRUCache[Condition, CachedAnswer[Observation]] = LRUCache(MOST_ANSWERS)
        self._asking = asyncio.Lock()

    async def observe(self, condition: Condition) -> Observation:
        """
        Check the condition in a thread, unless nothing has changed since its last check.

        :raises BackfillError: if the condition can no longer be met, or the tables cannot be read.
        """
        async with self._asking:
            versions = await _get(self._versions, None, self._read_versions)
            answer = self._answers.setdefault(condition, CachedAnswer(LOOK_ANYWAY_SECONDS))
            return await _get(answer, versions, lambda: observe(self.reader, condition))

    @property
    def reader(self) -> BackfillReader:
        """
        Return a new reader of the tables, because a reader caches what it has read.

        :raises InvalidConnectionError: if the connection cannot be used.
        """
        return self._hook.reader(self._state)

    @cached_property
    def _hook(self) -> BackfillHook:
        return BackfillHook(self._backfill_conn_id)

    @cached_property
    def _tables(self) -> VersionsWatch:
        from airflow_backfill_provider.lake.log.version_watch import VersionsWatch

        reader = self.reader
        return VersionsWatch(reader.watched_tables, reader.storage_options)

    def _read_versions(self) -> Versions:
        return self._tables.latest()


async def _get(cached: CachedAnswer[Answer], versions: Hashable, read: Callable[[], Answer]) -> Answer:
    """Return the cached answer, or read it in a thread."""
    known = cached.known(versions)
    return known.answer if known else await asyncio.to_thread(cached.get, versions, read)


_watched: weakref.WeakValueDictionary[tuple[str, str], WatchedJob] = weakref.WeakValueDictionary()


def watched_job(state: str, backfill_conn_id: str) -> WatchedJob:
    """Return the job that the triggers of this process share, as long as one of them refers to it."""
    key = (state, backfill_conn_id)
    job = _watched.get(key)
    if job is None:
        job = _watched[key] = WatchedJob(state, backfill_conn_id)
    return job
