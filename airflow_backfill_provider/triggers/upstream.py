"""
The trigger of an asset watcher: starts a run when a job needs an epoch, so that none is started only to look.

What was told is kept in memory alone. After a restart the control tables say what is still needed: nothing is lost, and
what no run has begun with may be told again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_backfill_provider.core.cached_answer import CachedAnswer
from airflow_backfill_provider.core.demand import Demand, demand_of
from airflow_backfill_provider.core.errors import JobNotCreatedError, UpstreamNotFoundError, UpstreamReplacedError
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.hooks.backfill import BackfillHook, load_job

if TYPE_CHECKING:
    from airflow_backfill_provider.core.barrier import Barrier, UpstreamWindow
    from airflow_backfill_provider.core.epoch_record import EpochCommit
    from airflow_backfill_provider.core.settings import JobSettings
    from airflow_backfill_provider.core.upstream import UpstreamDefinition
    from airflow_backfill_provider.lake.version_watch import VersionsWatch
    from airflow_backfill_provider.protocol.backfill import Backfill
    from airflow_backfill_provider.sources.base import Source, SourceWatch

    Progress = tuple[JobSettings | None, Barrier | None, EpochCommit | None]

log = logging.getLogger(__name__)


class UpstreamCommit(NamedTuple):
    """An upstream's newest offset, and when it was committed."""

    offset: Offset
    timestamp: str


class UpstreamCommitTrigger(BaseEventTrigger):
    """
    Fires when a job needs an epoch: its upstream has a commit that no epoch covers, or its snapshot is not read whole.
    It also fires when the upstream was made anew or put back from an older copy, for the epoch that refuses it.

    Triggers of several jobs on one upstream share the look at it. Whatever keeps one from looking, such as a table that
    is not there yet or a storage that does not answer, is logged once, and looked for again.

    Its events are ``{"job", "upstream", "version", "timestamp", "reason"}``: the upstream's newest version and when it
    was committed, and why an epoch is needed.

    :param job: the definition's fields.
    :param backfill_conn_id: the connection that says where control tables lie.
    :param poll_interval: seconds between two looks.
    """

    def __init__(self, *, job: Mapping[str, Any], backfill_conn_id: str, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = dict(job)
        self.backfill_conn_id = backfill_conn_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return how the trigger is made again elsewhere."""
        arguments = {"job": self.job, "backfill_conn_id": self.backfill_conn_id, "poll_interval": self.poll_interval}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    def shared_stream_key(self) -> Hashable:
        """Return what triggers have in common that share their looks at the upstream."""
        upstream = load_job(self.job).upstream
        return "upstream commits", upstream.kind, upstream.location, self.backfill_conn_id, self.poll_interval

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[UpstreamCommit]:
        """
        Yield the upstream's newest commit at every look, be it new or not: a job may need an epoch without a new one.

        :param kwargs: the arguments of one of the triggers that share the stream.
        """
        upstream, conn_id = load_job(kwargs["job"]).upstream, kwargs["backfill_conn_id"]
        watch, troubles = _UpstreamWatch(upstream, conn_id), _Troubles()
        while True:
            try:
                commit = await asyncio.to_thread(watch.look)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
                troubles.tell(f"cannot look at {upstream.location}", error)
                watch = _UpstreamWatch(upstream, conn_id)
            else:
                troubles.over()
                yield commit
            await asyncio.sleep(kwargs["poll_interval"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[UpstreamCommit]) -> AsyncIterator[TriggerEvent]:
        """Yield an event whenever the job needs an epoch for something that was not told yet."""
        watch, troubles = _JobWatch(self.job, self.backfill_conn_id), _Troubles()
        told: Hashable = None
        async for commit in shared_stream:
            try:
                demand = await asyncio.to_thread(watch.demand, commit)
            except Exception as error:  # noqa: BLE001 - as above
                troubles.tell(f"cannot look at job {self.job['name']}", error)
                watch = _JobWatch(self.job, self.backfill_conn_id)
                continue
            troubles.over()
            if demand is not None and demand.key != told:
                told = demand.key
                yield self._event(commit, demand)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look alone, where nobody shares streams."""
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event

    def _event(self, commit: UpstreamCommit, demand: Demand) -> TriggerEvent:
        payload = {
            "job": self.job["name"],
            "upstream": load_job(self.job).upstream.location,
            "version": commit.offset.root,
            "timestamp": commit.timestamp,
            "reason": demand.reason,
        }
        return TriggerEvent(payload)  # type: ignore[no-untyped-call]


class _UpstreamWatch:
    """
    Looks at an upstream; made anew after a failure, for the connection may have been what was wrong.

    :param upstream: its definition.
    :param backfill_conn_id: the connection with the object store's options.
    """

    def __init__(self, upstream: UpstreamDefinition, backfill_conn_id: str) -> None:
        self._upstream = upstream
        self._backfill_conn_id = backfill_conn_id
        self._commit: CachedAnswer[UpstreamCommit] = CachedAnswer()

    @cached_property
    def _watch(self) -> SourceWatch:
        return self._open().watch()

    def look(self) -> UpstreamCommit:
        """
        Return the newest commit.

        :raises UpstreamNotFoundError: if there is no table.
        """
        offset, mark = self._watch.look()
        return self._commit.get((offset, mark), lambda: self._read(offset))

    def _read(self, offset: Offset | None) -> UpstreamCommit:
        if offset is None:
            raise UpstreamNotFoundError(f"there is no Delta table at {self._upstream.location} yet, or any more")
        return UpstreamCommit(offset, self._open().watermark(offset).isoformat())

    def _open(self) -> Source:
        from airflow_backfill_provider.sources import open_source

        return open_source(self._upstream, BackfillHook(self._backfill_conn_id).connection.storage_options)


class _JobWatch:
    """
    Looks at a job's control tables, and reads them only if they changed; made anew after a failure.

    :param job: the definition's fields.
    :param backfill_conn_id: the connection that says where control tables lie.
    """

    def __init__(self, job: Mapping[str, Any], backfill_conn_id: str) -> None:
        self._job = job
        self._backfill_conn_id = backfill_conn_id
        self._progress: CachedAnswer[Progress] = CachedAnswer()

    @cached_property
    def _backfill(self) -> Backfill:
        return BackfillHook(self._backfill_conn_id).open(self._job)

    @cached_property
    def _tables(self) -> VersionsWatch:
        from airflow_backfill_provider.lake.version_watch import VersionsWatch

        return VersionsWatch(self._backfill.store.watched_tables, self._backfill.store.storage_options)

    def demand(self, latest: UpstreamCommit) -> Demand | None:
        """
        Return what the job needs an epoch for.

        :param latest: the upstream's newest commit.
        """
        settings, newest, commit = self._progress.get(self._tables.latest(), self._read)
        replaced = "" if newest is None else self._how_replaced(newest.upstream, latest)
        return demand_of(settings, newest, commit, latest.offset, replaced=replaced)

    def _how_replaced(self, come_to: UpstreamWindow, latest: UpstreamCommit) -> str:
        """Return how the upstream is refused that is not the one which the job has read; empty if it isn't."""
        if latest.offset > come_to.to_offset:
            return ""
        if latest == UpstreamCommit(come_to.to_offset, come_to.watermark.isoformat()):
            return ""
        # An epoch may have been pinned between the two looks, of a version after the one that was the newest then.
        try:
            self._backfill.upstream.require_same_history(come_to.end)
        except UpstreamReplacedError as error:
            return str(error)
        return ""

    def _read(self) -> Progress:
        try:
            settings = self._backfill.settings()
        except JobNotCreatedError:
            return None, None, None
        newest = self._backfill.store.newest_barrier(settings)
        return settings, newest, None if newest is None else self._backfill.store.commit_of(newest.epoch)


class _Troubles:
    """Logs what goes wrong, once for as long as it stays the same."""

    def __init__(self) -> None:
        self._told = ""

    def tell(self, what: str, error: Exception) -> None:
        """Log an error, unless it was the last one, too."""
        message = str(error)
        if message != self._told:
            log.warning("%s, looking again: %s", what, message)
        self._told = message

    def over(self) -> None:
        """Note that it went well."""
        self._told = ""
