"""One job as the pages see it: read once, and again only when one of its tables has a new version."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.barrier import Barrier, EpochCommit, digest
from airflow_backfill_provider.core.errors import JobNotCreatedError
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.status import JobSummary
from airflow_backfill_provider.core.vnode_cells import VnodeCell, vnode_cells
from airflow_backfill_provider.lake.watched_table import WatchedTable

FRESH_SECONDS = 1.0
"""A look within that time of the last one is answered from it."""

CHART_EPOCHS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSight:
    """
    A job at the versions that its tables had.

    :param token: changes whenever a table has a new version.
    :param created: whether it has control tables.
    :param summary: how far it is; ``None`` if it was not created.
    :param cells: the map of its vnodes.
    """

    token: str
    created: bool
    summary: JobSummary | None = None
    cells: tuple[VnodeCell, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """
    What happened to a job.

    :param barriers: of the newest epochs, ascending.
    :param commits: the commits of those.
    :param changes: every record of its settings, oldest first.
    """

    barriers: tuple[Barrier, ...]
    commits: tuple[EpochCommit, ...]
    changes: tuple[JobSettings, ...]


class ObservedJob:
    """
    Keeps what was read last; a look that finds the tables' versions unchanged costs less than a millisecond each.

    :param open_job: opens the job; called with the first look.
    """

    def __init__(self, open_job: Callable[[], Backfill]) -> None:
        self._open_job = open_job
        self._lock = threading.Lock()
        self._backfill: Backfill | None = None
        self._tables: tuple[WatchedTable, ...] = ()
        self._looked = float("-inf")
        self._history: tuple[str, JobHistory] | None = None
        self.last: JobSight | None = None

    @property
    def fresh(self) -> bool:
        """Whether the last look was just now."""
        return time.monotonic() - self._looked < FRESH_SECONDS

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        with self._lock:
            return self._opened()

    def look(self) -> JobSight:
        """
        Return the job as it is now.

        :raises BackfillError: if its tables cannot be read.
        """
        with self._lock:
            if self.last is None or not self.fresh:
                # Versions first: what is written while the tables are read, the next look finds.
                token = self._token()
                if self.last is None or self.last.token != token:
                    self.last = _read(self._opened(), token)
                self._looked = time.monotonic()
            return self.last

    def look_again(self) -> JobSight:
        """Return the job as it is now, also if the last look was just before: something was changed since."""
        self._looked = float("-inf")
        return self.look()

    def history(self) -> JobHistory:
        """
        Return what happened to the job, its chart's epochs included.

        :raises BackfillError: if its tables cannot be read.
        """
        sight = self.look()
        with self._lock:
            if self._history is None or self._history[0] != sight.token:
                self._history = sight.token, _read_history(self._opened(), sight)
            return self._history[1]

    def _opened(self) -> Backfill:
        if self._backfill is None:
            backfill = self._open_job()
            locations = (*backfill.store.changing_tables, backfill.upstream.path)
            self._tables = tuple(WatchedTable(location, backfill.storage_options) for location in locations)
            self._backfill = backfill
        return self._backfill

    def _token(self) -> str:
        self._opened()
        return digest([(table.location, table.version()) for table in self._tables])


def _read(backfill: Backfill, token: str) -> JobSight:
    try:
        backfill.settings()
    except JobNotCreatedError:
        return JobSight(token=token, created=False)
    read = backfill.read()
    return JobSight(token=token, created=True, summary=read.summary(), cells=vnode_cells(read.settings, read.state))


def _read_history(backfill: Backfill, sight: JobSight) -> JobHistory:
    if not sight.created:
        return JobHistory(barriers=(), commits=(), changes=())
    since = max(backfill.store.last_epoch() - CHART_EPOCHS + 1, 0)
    barriers, commits = backfill.store.log(since_epoch=since)
    return JobHistory(
        barriers=tuple(barriers), commits=tuple(commits), changes=tuple(backfill.store.settings_history())
    )
