"""
The trigger of an asset watcher, which starts a DAG run only when a job needs an epoch.

The trigger keeps its emitted events only in memory. After a restart it reads from the control tables what is needed, so
no event is lost; an event that no DAG run has acted on may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.core.epoch.approvals import is_released
from airflow_backfill_provider.core.epoch.demand import Demand, demand_of
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    JobNotCreatedError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.hooks.backfill import BackfillHook, load_job

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.epoch.window import UpstreamWindow
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
    from airflow_backfill_provider.jobs.backfill import Backfill
    from airflow_backfill_provider.lake.log.version_watch import VersionsWatch
    from airflow_backfill_provider.sources.watch import SourceWatch

    Progress = tuple[JobSettings | None, Barrier | None, EpochCommit | None]

log = logging.getLogger(__name__)


class UpstreamCommit(NamedTuple):
    """An upstream's newest offset, and when it was committed."""

    offset: Offset
    timestamp: str


class UpstreamCommitTrigger(BaseEventTrigger):
    """
    Fires when a job needs an epoch: its upstream has a commit that no epoch covers, or its snapshot is not fully read.
    Also fires when the upstream was recreated or restored from an older copy, so that an epoch refuses it.

    Triggers of several jobs on one upstream share its polls. An error, such as a missing table or a storage that does
    not answer, is logged once, and the trigger continues to poll.

    Its events are ``{"job", "upstream", "version", "timestamp", "reason"}``: the upstream's newest version and when it
    was committed, and why an epoch is needed.

    :param job: the definition's fields.
    :param backfill_conn_id: the connection with the location of control tables.
    :param poll_interval: seconds between two polls.
    :param other: the name of the upstream to poll, if it is not the one that leads.
    """

    def __init__(
        self, *, job: Mapping[str, Any], backfill_conn_id: str, poll_interval: float, other: str | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = dict(job)
        self.backfill_conn_id = backfill_conn_id
        self.poll_interval = poll_interval
        self.other = other

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes the trigger again."""
        arguments = {"job": self.job, "backfill_conn_id": self.backfill_conn_id, "poll_interval": self.poll_interval}
        if self.other is not None:
            arguments["other"] = self.other
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    def shared_stream_key(self) -> Hashable:
        """Return the key of the triggers that share their polls of the upstream."""
        upstream = _definition_of(load_job(self.job), self.other)
        # Jobs that name one table may have found it at different locations.
        watched = upstream.watched if upstream.is_placed else f"{upstream.catalog_table} of job {self.job['name']}"
        return "upstream commits", upstream.kind, watched, self.backfill_conn_id, self.poll_interval

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[UpstreamCommit]:
        """
        Yield the upstream's newest commit at every poll, even if it is not new: a job may need an epoch without one.

        :param kwargs: the arguments of one of the triggers that share the stream.
        """
        job, conn_id, other = load_job(kwargs["job"]), kwargs["backfill_conn_id"], kwargs.get("other")
        watch, failures = _UpstreamWatch(job, conn_id, other), _FailureLog()
        while True:
            try:
                commit = await asyncio.to_thread(watch.look)
            except Exception as error:  # noqa: BLE001 - the next poll may succeed
                failures.log(f"cannot read {_definition_of(job, other).location}", error)
                watch = _UpstreamWatch(job, conn_id, other)
            else:
                failures.clear()
                yield commit
            await asyncio.sleep(kwargs["poll_interval"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[UpstreamCommit]) -> AsyncIterator[TriggerEvent]:
        """Yield an event whenever the job needs an epoch for a new reason."""
        watch, failures = _JobWatch(self.job, self.backfill_conn_id, self.other), _FailureLog()
        emitted: Hashable = None
        async for commit in shared_stream:
            try:
                demand = await asyncio.to_thread(watch.demand, commit)
            except Exception as error:  # noqa: BLE001 - as above
                failures.log(f"cannot read job {self.job['name']}", error)
                watch = _JobWatch(self.job, self.backfill_conn_id, self.other)
                continue
            failures.clear()
            if demand is not None and demand.key != emitted:
                emitted = demand.key
                yield self._event(commit, demand)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll without other triggers, if Airflow does not share streams."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    def _event(self, commit: UpstreamCommit, demand: Demand) -> TriggerEvent:
        payload = {
            "job": self.job["name"],
            "upstream": _definition_of(load_job(self.job), self.other).location,
            "version": commit.offset.root,
            "timestamp": commit.timestamp,
            "reason": demand.reason,
        }
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]


class _UpstreamWatch:
    """
    Polls an upstream. A failure replaces it, because the connection may have been wrong.

    :param job: a job that reads the upstream.
    :param backfill_conn_id: the connection with the object store's options.
    :param other: the name of the upstream, if it is not the one that leads.
    """

    def __init__(self, job: BackfillJob, backfill_conn_id: str, other: str | None = None) -> None:
        self._job = job
        self._other = other
        self._backfill_conn_id = backfill_conn_id
        self._commit: CachedAnswer[UpstreamCommit] = CachedAnswer()

    @cached_property
    def _watch(self) -> SourceWatch:
        from airflow_backfill_provider.jobs.upstream_watch import watch_upstream

        return watch_upstream(BackfillHook(self._backfill_conn_id).open(self._job), self._other)

    def look(self) -> UpstreamCommit:
        """
        Return the newest commit.

        :raises UpstreamNotFoundError: if there is no table.
        """
        offset, mark = self._watch.look()
        return self._commit.get((offset, mark), lambda: self._read(offset))

    def _read(self, offset: Offset | None) -> UpstreamCommit:
        if offset is None:
            raise UpstreamNotFoundError(
                f"there is no table at {_definition_of(self._job, self._other).location}: it is not created yet, or it "
                "was removed"
            )
        return UpstreamCommit(offset, self._watch.seen_at(offset).isoformat())


class _JobWatch:
    """
    Polls a job's control tables, and reads them only if they have changed. A failure replaces it.

    :param job: the definition's fields.
    :param backfill_conn_id: the connection with the location of control tables.
    :param other: the name of the upstream, if it is not the one that leads.
    """

    def __init__(self, job: Mapping[str, Any], backfill_conn_id: str, other: str | None = None) -> None:
        self._job = job
        self._other = other
        self._backfill_conn_id = backfill_conn_id
        self._progress: CachedAnswer[Progress] = CachedAnswer()

    @cached_property
    def _backfill(self) -> Backfill:
        return BackfillHook(self._backfill_conn_id).open(self._job)

    @cached_property
    def _tables(self) -> VersionsWatch:
        from airflow_backfill_provider.lake.log.version_watch import VersionsWatch

        return VersionsWatch(self._backfill.store.watched_tables, self._backfill.store.storage_options)

    def demand(self, latest: UpstreamCommit) -> Demand | None:
        """
        Return why the job needs an epoch, or ``None`` if it needs none.

        :param latest: the upstream's newest commit.
        """
        settings, newest, commit = self._progress.get(self._tables.latest(), self._read)
        replaced = "" if newest is None else self._replacement_error(_window_of(newest, self._other), latest)
        own = demand_of(settings, newest, commit, latest.offset, replaced=replaced, other=self._other)
        if own is not None or settings is None:
            return own
        successor = self._backfill.successor_by(settings)
        return None if successor is None else self._demand_of_successor(settings, successor, latest.offset)

    def _demand_of_successor(self, settings: JobSettings, successor: Backfill, latest: Offset) -> Demand | None:
        """Return why the rebuild that grows beside the view needs an epoch, or the job one to let it take its place."""
        grown, newest, commit = _progress_of(successor)
        found = demand_of(grown, newest, commit, latest, other=self._other)
        if found is not None:
            return Demand((successor.job.state, found.key), f"a rebuild grows beside the view: {found.reason}")
        if grown is None or commit is None or not commit.completed or not is_released(settings, grown.incarnation):
            return None
        return Demand((successor.job.state, "handover"), "the rebuild is finished and can take the view's place")

    def _replacement_error(self, reached: UpstreamWindow, latest: UpstreamCommit) -> str:
        """Return the text of the error if the upstream is not the one that the job has read; otherwise empty."""
        if latest.offset > reached.to_offset:
            return ""
        if latest == UpstreamCommit(reached.to_offset, reached.watermark.isoformat()):
            return ""
        # An epoch that was pinned between the two reads may end at a newer version than `latest`.
        backfill = self._backfill
        try:
            source = backfill.upstream if self._other is None else backfill.others[self._other]
            source.require_same_history(reached.end)
        except (UpstreamReplacedError, ChangeFeedGapError) as error:
            return str(error)
        return ""

    def _read(self) -> Progress:
        return _progress_of(self._backfill)


def _definition_of(job: BackfillJob, other: str | None) -> UpstreamDefinition:
    return job.upstream if other is None else job.others[other]


def _window_of(barrier: Barrier, other: str | None) -> UpstreamWindow:
    return barrier.upstream if other is None else barrier.window(other)


def _progress_of(backfill: Backfill) -> Progress:
    """Return a job's settings, its newest barrier and the commit of this; without settings if it is not created."""
    try:
        settings = backfill.settings()
    except JobNotCreatedError:
        return None, None, None
    newest = backfill.store.newest_barrier(settings)
    return settings, newest, None if newest is None else backfill.store.commit_of(newest.epoch)


class _FailureLog:
    """Logs failures, but not the same one again until something else happens."""

    def __init__(self) -> None:
        self._last = ""

    def log(self, what: str, error: Exception) -> None:
        """Log an error, unless it is the same as the last one."""
        message = str(error)
        if message != self._last:
            log.warning("%s, trying again: %s", what, message)
        self._last = message

    def clear(self) -> None:
        """Forget the last error, after a success."""
        self._last = ""
