"""
A job that triggers wait for, shared by all of them in one triggerer.

A thousand sensors ask the same few questions again and again. Whether anything changed since the last answer is told by
the versions of two small tables, which are asked for once for all who wait for the same job; and so is each question.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_backfill_provider.hooks.backfill import BackfillHook
from airflow_backfill_provider.triggers.conditions import Condition, Observation, observe

if TYPE_CHECKING:
    from airflow_backfill_provider.lake.version_watch import VersionWatch
    from airflow_backfill_provider.state.store import BackfillReader

Versions = tuple[int | None, ...]

FRESH_SECONDS = 1.0
"""For how long what one trigger asked is good enough for the others."""

LOOK_ANYWAY_SECONDS = 120.0
"""A table that lost its files still has its version."""

MOST_ANSWERS = 256


@dataclass(frozen=True, slots=True)
class _Answer:
    """What was seen, when, and at which versions of the tables."""

    observation: Observation
    versions: Versions
    looked: float

    def holds(self, versions: Versions) -> bool:
        """Tell whether another look would see the same."""
        return self.versions == versions and time.monotonic() - self.looked < LOOK_ANYWAY_SECONDS


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
        self._answers: OrderedDict[Condition, _Answer] = OrderedDict()
        self._asking: asyncio.Lock | None = None

    async def observe(self, condition: Condition) -> Observation:
        """
        Look, in a thread, unless the last look at the condition would see the same.

        :raises BackfillError: if what is waited for will not come, or the tables cannot be read.
        """
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if time.monotonic() - self._asked > FRESH_SECONDS:
                self._versions = await asyncio.to_thread(self._read_versions)
                self._asked = time.monotonic()
            answer = self._answers.get(condition)
            if answer is None or not answer.holds(self._versions):
                observation = await asyncio.to_thread(observe, self.reader(), condition)
                answer = self._answers[condition] = _Answer(observation, self._versions, time.monotonic())
            self._answers.move_to_end(condition)
            if len(self._answers) > MOST_ANSWERS:
                self._answers.popitem(last=False)
            return answer.observation

    def reader(self) -> BackfillReader:
        """
        Return what reads the tables.

        :raises InvalidConnectionError: if the connection cannot be used.
        """
        if self._reader is None:
            self._reader = BackfillHook(self._backfill_conn_id).reader(self._state)
        return self._reader

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
