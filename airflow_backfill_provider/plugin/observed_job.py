"""One job that the pages show. It is read again only when one of its tables has a new version."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.digest import digest
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import JobNotCreatedError, UpstreamRefusedError, UpstreamUnavailableError
from airflow_backfill_provider.core.status.chain import waits_for
from airflow_backfill_provider.core.status.job_status import JobSummary, splits_of
from airflow_backfill_provider.core.status.split_status import SplitStatus
from airflow_backfill_provider.core.status.vnode_cells import VnodeCell, vnode_cells
from airflow_backfill_provider.jobs.backfill import Backfill, ReadBackfill
from airflow_backfill_provider.jobs.upstream_watch import watch_upstream
from airflow_backfill_provider.lake.log.version_watch import VersionsWatch
from airflow_backfill_provider.sources.watch import SourceWatch

FRESH_SECONDS = 1.0
"""How long a reading is returned again without checking the tables' versions."""

ASSESS_SECONDS = 30.0
"""After this time, warnings are assessed again even if no table changed: a job may stall, or run out of time."""

CHART_EPOCHS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReading:
    """
    A job at some versions of its tables.

    :param token: a value that changes whenever the pages have something new to show.
    :param created: whether the job has control tables.
    :param summary: the job's progress; ``None`` if it was not created.
    :param waits_for: if the job is not created, which job has to finish the view that this one reads; empty if none.
    :param cells: the map of the vnodes.
    :param splits: the progress of each split of the upstream.
    :param shared_position: whether positions are keys, so that all vnodes share one.
    """

    token: str
    created: bool
    summary: JobSummary | None = None
    waits_for: str = ""
    cells: tuple[VnodeCell, ...] = ()
    splits: tuple[SplitStatus, ...] = ()
    shared_position: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """
    The history of a job.

    :param barriers: the barriers of the newest epochs, ascending.
    :param commits: the commits of these epochs.
    :param changes: all records of the settings, oldest first.
    """

    barriers: tuple[Barrier, ...]
    commits: tuple[EpochCommit, ...]
    changes: tuple[JobSettings, ...]


class ObservedJob:
    """
    Caches the last reading of a job. A check that a table has no new version takes less than a millisecond.

    :param open_job: opens the job on the first reading.
    """

    def __init__(self, open_job: Callable[[], Backfill], clock: Clock = utc_now) -> None:
        self._open_job = open_job
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._read: CachedAnswer[ReadBackfill | None] = CachedAnswer()
        self._reading: CachedAnswer[JobReading] = CachedAnswer(ASSESS_SECONDS)
        self._history: CachedAnswer[JobHistory] = CachedAnswer()
        self._beside: VersionsWatch | None = None
        self.last: JobReading | None = None

    @property
    def fresh(self) -> bool:
        """Whether the last reading is recent enough."""
        return time.monotonic() - self._looked < FRESH_SECONDS

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        with self._lock:
            return self._backfill

    def look(self) -> JobReading:
        """
        Return the job as it is now.

        :raises BackfillError: if its tables cannot be read.
        """
        with self._lock:
            if self.last is not None and self.fresh:
                return self.last
            versions = self._versions()
            read = self._read.get(versions, self._read_now)
            self.last = self._reading.get(versions, lambda: self._reading_of(versions, read))
            self._looked = time.monotonic()
            return self.last

    def look_again(self) -> JobReading:
        """Return the job as it is now, even if the last reading is recent; for a job that was just changed."""
        self._looked = float("-inf")
        return self.look()

    def history(self) -> JobHistory:
        """
        Return the job's history, with the epochs of the chart.

        :raises BackfillError: if its tables cannot be read.
        """
        reading = self.look()
        with self._lock:
            return self._history.get(reading.token, lambda: _read_history(self._backfill, reading))

    @cached_property
    def _backfill(self) -> Backfill:
        return self._open_job()

    @cached_property
    def _tables(self) -> VersionsWatch:
        return _watch_of(self._backfill)

    @cached_property
    def _upstreams(self) -> tuple[SourceWatch, ...]:
        return tuple(watch_upstream(self._backfill, other) for other in (None, *self._backfill.job.others))

    def _versions(self) -> str:
        """Return a value that changes whenever a table of the job, or of the rebuild beside its view, does."""
        try:
            seen = [str(part) for upstream in self._upstreams for part in upstream.look()]
        except (UpstreamUnavailableError, UpstreamRefusedError) as error:
            # The status says so, and all else is in the job's own tables.
            seen = [type(error).__name__]
        beside = () if self._beside is None else self._beside.latest()
        return digest([*self._tables.latest(), *beside, seen])

    def _reading_of(self, versions: str, read: ReadBackfill | None) -> JobReading:
        return _reading_before(versions, self._backfill) if read is None else _reading(versions, read, self._clock)

    def _read_now(self) -> ReadBackfill | None:
        read = _read(self._backfill)
        successor = None if read is None else self._backfill.successor_by(read.settings)
        # Its first versions are read with the next look, which then reads the job once more.
        self._beside = None if successor is None else _watch_of(successor)
        return read


def _watch_of(backfill: Backfill) -> VersionsWatch:
    return VersionsWatch(backfill.store.watched_tables, backfill.store.storage_options)


def _read(backfill: Backfill) -> ReadBackfill | None:
    try:
        backfill.require_ours()
    except JobNotCreatedError:
        return None
    return backfill.read()


def _reading_before(versions: str, backfill: Backfill) -> JobReading:
    """Return the reading of a job that is not created."""
    waiting = waits_for(backfill.chain)
    return JobReading(token=digest([versions, waiting]), created=False, waits_for=waiting)


def _reading(versions: str, read: ReadBackfill, clock: Clock) -> JobReading:
    summary = read.summary(clock)
    return JobReading(
        token=digest([versions, summary.warnings]),
        created=True,
        summary=summary,
        cells=vnode_cells(read.settings, read.state),
        splits=splits_of(read.settings, read.state, summary),
        shared_position=read.settings.has_shared_position,
    )


def _read_history(backfill: Backfill, reading: JobReading) -> JobHistory:
    if not reading.created:
        return JobHistory(barriers=(), commits=(), changes=())
    since = max(backfill.store.last_epoch() - CHART_EPOCHS + 1, 0)
    barriers, commits = backfill.store.log(since_epoch=since)
    return JobHistory(
        barriers=tuple(barriers), commits=tuple(commits), changes=tuple(backfill.store.settings_history())
    )
