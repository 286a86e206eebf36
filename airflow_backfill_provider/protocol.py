"""
The epoch protocol, whole: inject, execute, commit, finish.

One barrier is one epoch is one application run::

    inject   (no JVM)  read settings, state and barrier log; adopt the pinned uncommitted barrier, or pin the next one:
                       version window, new position, change filter, rate limit, mutations
    execute  (Spark)   changes of the window for rows behind the old position, as one merge; then the
                       chunk (old position, new position] as of the window's end, as one append
    commit   (no JVM)  the per-vnode state, then the barrier log's record of the epoch
    finish   (no JVM)  once every vnode is Completed, exactly once

What makes it safe to run any step again, twice at once, or long after:

* an epoch is a function of the committed state and of its pinned barrier (I2);
* each write to the view carries a transaction id (job, incarnation, part) with the epoch as version, so Delta skips
  what was written before, and a skipped write is believed only once the view's own log shows it (I5);
* each write to a control table is a compare-and-swap that first looks whether it was done already (I3, I5);
* nothing is written before everything that can be refused was looked at (I6).

Ports the barrier loop of ``BackfillExecutor::execute_inner``, with one difference that `docs/concepts.md` explains: the
chunk is read at the epoch's end and changes are filtered by the position before the epoch, which makes the
chunk a pure append.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from airflow_backfill_provider.core.barrier import (
    Barrier,
    ChangeFilter,
    EpochCommit,
    PinnedChunk,
    PinnedMutation,
    Requester,
    UpstreamWindow,
)
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ConcurrentUpdateError,
    JobCancelledError,
    NotFinishedError,
    StateError,
)
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.keys import KeyOrder
from airflow_backfill_provider.core.planner import plan_chunk
from airflow_backfill_provider.core.progress import (
    BackfillState,
    InProgress,
    NotStarted,
    SnapshotRange,
    position_of,
)
from airflow_backfill_provider.core.settings import (
    JobSettings,
    ResolvedUpstream,
    SettingsChange,
)
from airflow_backfill_provider.crash_points import CrashPoint, reached
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.state.store import BackfillStore

Clock = Callable[[], dt.datetime]

_INJECTIONS = 3
"""How often an injection starts over because the job is rebuilt under it."""


def utc_now() -> dt.datetime:
    """Return the current instant."""
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True, slots=True)
class EpochWrites:
    """
    What executing a barrier did to the view; the same again for every attempt of the epoch.

    :param snapshot_rows: upstream rows in the chunk, before the query's filter.
    :param change_rows: net changes let through, before the query's filter.
    :param view_version: version of the view's table afterwards.
    :param seconds: wall-clock seconds by phase, of this attempt.
    """

    snapshot_rows: int
    change_rows: int
    view_version: int
    seconds: dict[str, float] = field(default_factory=dict)


class Engine(Protocol):
    """What the protocol needs of Spark; implemented by :class:`~airflow_backfill_provider.engine.SparkEngine`."""

    def check(self, job: BackfillJob, upstream: ResolvedUpstream, version: int, incarnations: frozenset[str]) -> None:
        """Refuse a job whose query, key or view's path is wrong, before anything is written."""
        ...

    def ensure_view(self, settings: JobSettings, earlier_incarnations: frozenset[str]) -> None:
        """Make the view's empty table exist for the settings' incarnation; a no-op if it does."""
        ...

    def execute(self, settings: JobSettings, barrier: Barrier, *, view_version: int | None) -> EpochWrites:
        """Write the barrier's changes and chunk, each exactly once."""
        ...

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is finished; a no-op if it says so already."""
        ...

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Keep a second driver of this machine from committing to a local table at the same instant."""
        ...


# --------------------------------------------------------------------------------------------------------- inject


@dataclass(frozen=True, slots=True)
class Injection:
    """
    The answer to a request for a barrier.

    :param barrier: the barrier to run, or ``None`` if there is nothing to do.
    :param commit: the epoch's commit, if the barrier is done already.
    :param reason: why there is nothing to do.
    """

    barrier: Barrier | None
    commit: EpochCommit | None = None
    reason: str = ""


def inject_barrier(
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    requester: Requester,
    until: dt.datetime | None = None,
    clock: Clock = utc_now,
) -> Injection:
    """
    Pin the next epoch, or return the one that is due.

    In order: the barrier that this very task run pinned before (a retry, a cleared task); the barrier that
    somebody pinned and nobody committed; a new one up to the upstream's newest version at ``until``.

    :param until: look at the upstream as of this instant, by default as it is now. A run of an Airflow schedule passes
        its ``data_interval_end``.
    :raises JobCancelledError: if the job was cancelled.
    :raises UpstreamError: if the upstream can no longer be backfilled from.
    """
    for _ in range(_INJECTIONS):
        settings = store.settings()
        if requester.is_task_run:
            mine = store.barrier_of(requester)
            if mine is not None and mine.incarnation == settings.incarnation:
                return _injected(store, mine)
        if settings.cancelled:
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled by {_who_cancelled(store)}; rebuild it to start over"
            )
        store.repair_state()
        # Read before the barrier: whatever is pinned from here on takes the next number first, and is adopted.
        last_epoch = store.last_epoch()
        previous = store.newest_barrier(settings)
        if previous is not None and store.commit_of(previous.epoch) is None:
            return Injection(previous)
        barrier, idle = _next_barrier(
            store,
            settings,
            upstream,
            previous=previous,
            last_epoch=last_epoch,
            requester=requester,
            until=until,
            now=clock(),
        )
        if barrier is None:
            return Injection(None, reason=idle)
        pinned = store.pin(barrier)
        reached(CrashPoint.AFTER_PIN)
        if pinned.incarnation != settings.incarnation:
            continue
        if idle and pinned == barrier:
            _commit_idle(store, barrier, clock())
            return Injection(None, reason=idle)
        return _injected(store, pinned)
    raise ConcurrentUpdateError(f"the job at {store.location} is being rebuilt; try again")


def _commit_idle(store: BackfillStore, barrier: Barrier, now: dt.datetime) -> None:
    """
    Commit an epoch in which nothing happens to the view, without an engine.

    It moves the window past versions that only compacted files, say, so that the view does not seem to lag behind
    them and no later epoch needs their log.
    """
    state = store.state()
    previous = store.commit_of(barrier.prev_epoch)
    mine = previous is not None and previous.incarnation == barrier.incarnation
    commit = EpochCommit(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        snapshot_read_row_count=0,
        upstream_output_row_count=0,
        rows_read=state.shared.row_count,
        completed=state.completed,
        view_version=previous.view_version if previous and mine else None,
        watermark=barrier.upstream.watermark,
        seconds={},
        committed_at=now,
    )
    store.record_commit(barrier, commit)


def _injected(store: BackfillStore, barrier: Barrier) -> Injection:
    return Injection(barrier, store.commit_of(barrier.epoch))


def _next_barrier(
    store: BackfillStore,
    settings: JobSettings,
    upstream: UpstreamTable,
    *,
    previous: Barrier | None,
    last_epoch: int,
    requester: Requester,
    until: dt.datetime | None,
    now: dt.datetime,
) -> tuple[Barrier | None, str]:
    """Return the next barrier, if there is one to pin, and why there is nothing to do for Spark, if there is not."""
    from_version = previous.upstream.to_version if previous else -1
    to_version = upstream.latest_version() if until is None else upstream.version_at(until)
    if to_version is None:
        return None, f"the upstream has no version as old as {until}"
    described = upstream.at(to_version)
    described.require_same_table(settings.upstream, upstream.path)
    if to_version < from_version:
        return None, f"the window up to version {to_version} is covered: version {from_version} is committed already"
    described.require_as_created(settings.upstream, upstream.path)

    state = store.state()
    _require_state_of(state, store.commit_of(previous.epoch) if previous else None, store)
    chunk, row_count, warnings = _plan(settings, upstream, state, to_version, previous)
    changes = _change_filter(state, settings.key_order)
    idle = _why_idle(settings, state, upstream, changes, from_version, to_version) if chunk is None else ""
    if idle and to_version == from_version:
        return None, idle
    if changes.let_through != "none" and not idle:
        upstream.require_changes(from_version, to_version)
    barrier = Barrier(
        job=settings.job["name"],
        incarnation=settings.incarnation,
        epoch=last_epoch + 1,
        prev_epoch=last_epoch,
        upstream=UpstreamWindow(
            table_id=described.table_id,
            from_version=from_version,
            to_version=to_version,
            watermark=upstream.watermark(to_version),
            row_count=row_count,
        ),
        definition=settings.definition_digest,
        chunk=chunk,
        changes=changes,
        rate_limit=settings.rate_limit,
        paused=settings.paused,
        mutations=tuple(_mutations_since(store, settings, previous)),
        settings_sequence=settings.sequence,
        warnings=warnings,
        injected_by=requester,
        injected_at=now,
    )
    return barrier, idle


def _require_state_of(state: BackfillState, commit: EpochCommit | None, store: BackfillStore) -> None:
    """Refuse a state that is not what the last epoch left: reading on from an older one would read rows twice."""
    if commit is None:
        return
    # A state that is ahead is another runner's, whose barrier will be found pinned.
    if state.shared.row_count < commit.rows_read or (commit.completed and not state.completed):
        raise StateError(
            f"the state at {store.location} has {state.shared.row_count} rows read as of epoch {state.epoch}, but "
            f"epoch {commit.epoch} was committed with {commit.rows_read}; it was restored or changed: rebuild the job"
        )


def _plan(
    settings: JobSettings,
    upstream: UpstreamTable,
    state: BackfillState,
    version: int,
    previous: Barrier | None,
) -> tuple[PinnedChunk | None, int, tuple[str, ...]]:
    """Return the chunk to pin, the upstream's rows for the progress estimate, and the planner's warnings."""
    if state.completed:
        return None, previous.upstream.row_count if previous else 0, ()
    order = settings.key_order
    files, keys = upstream.files(version, order)
    row_count = sum(file.row_count for file in files)
    if not settings.reads_snapshot:
        return None, row_count, ()
    plan = plan_chunk(files, after=position_of(state.shared), rate_limit=settings.rate_limit, order=order, keys=keys)
    pinned = PinnedChunk(after=order.encode(plan.chunk.after), up_to=order.encode(plan.chunk.up_to))
    return pinned, row_count, plan.warnings


def _change_filter(state: BackfillState, order: KeyOrder) -> ChangeFilter:
    """Return which changes go through, by the progress before the epoch (design §5.3)."""
    match state.shared:
        case NotStarted():
            return ChangeFilter(let_through="none")
        case InProgress(position=position):
            return ChangeFilter(let_through="up_to", position=order.encode(position))
        case _:
            return ChangeFilter(let_through="all")


def _why_idle(
    settings: JobSettings,
    state: BackfillState,
    upstream: UpstreamTable,
    changes: ChangeFilter,
    from_version: int,
    to_version: int,
) -> str:
    """Return why an epoch without a chunk has nothing to do, or the empty string if it has."""
    waiting = "" if state.completed else ("paused, and " if settings.paused else "the rate limit is 0, and ")
    if changes.let_through == "none":
        return waiting + "nothing was read yet that could change"
    if to_version == from_version or not upstream.changes_data(from_version, to_version):
        return waiting + f"the upstream has no changes after version {from_version}"
    return ""


def _mutations_since(store: BackfillStore, settings: JobSettings, previous: Barrier | None) -> Iterator[PinnedMutation]:
    seen = previous.settings_sequence if previous else 0
    for record in store.settings_history():
        mutation = record.as_mutation()
        if record.incarnation == settings.incarnation and record.sequence > seen and mutation is not None:
            yield mutation


# ---------------------------------------------------------------------------------------------- execute and commit


def run_barrier(barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now) -> EpochCommit:
    """
    Execute a pinned barrier and commit its epoch; a no-op if it is committed.

    :returns: the epoch's commit as the barrier log holds it.
    :raises StateError: if the barrier belongs to an incarnation that was rebuilt meanwhile.
    :raises BackfillError: if the epoch cannot be done right; then nothing of it was written.
    """
    settings = store.settings()
    with engine.exclusive(settings):
        committed = store.commit_of(barrier.epoch)
        if committed is not None:
            return committed
        settings = store.settings()
        _require_current(barrier, settings, store)
        previous = store.commit_of(barrier.prev_epoch)
        continues = previous is not None and previous.incarnation == settings.incarnation
        view_version = previous.view_version if previous and continues else None
        if view_version is None:
            engine.ensure_view(settings, store.incarnations() - {settings.incarnation})
        try:
            writes = engine.execute(settings, barrier, view_version=view_version)
            return _commit(barrier, settings, writes, store=store, engine=engine, clock=clock)
        except BackfillError:
            # Another attempt may have committed this epoch and later ones, which is what this one ran into.
            committed = store.commit_of(barrier.epoch)
            if committed is None:
                raise
            return committed


def _commit(
    barrier: Barrier,
    settings: JobSettings,
    writes: EpochWrites,
    *,
    store: BackfillStore,
    engine: Engine,
    clock: Clock,
) -> EpochCommit:
    """Commit state and log, both derived from the pinned barrier and the view's commits alone."""
    started = time.monotonic()
    reached(CrashPoint.BEFORE_STATE_COMMIT)
    _require_current(barrier, store.settings(), store)
    state = store.state()
    if state.epoch < barrier.epoch:
        state = state.advanced(
            epoch=barrier.epoch,
            chunk=pinned_range(barrier, settings.key_order),
            rows_read=writes.snapshot_rows,
        )
        store.write_state(state, settings)
    reached(CrashPoint.AFTER_STATE_COMMIT)
    if state.completed and settings.finished_epoch is None:
        engine.mark_finished(settings, barrier)
    reached(CrashPoint.BEFORE_LOG_COMMIT)
    commit = EpochCommit(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        snapshot_read_row_count=writes.snapshot_rows,
        upstream_output_row_count=writes.change_rows,
        rows_read=state.shared.row_count,
        completed=state.completed,
        view_version=writes.view_version,
        watermark=barrier.upstream.watermark,
        seconds={**writes.seconds, "commit": time.monotonic() - started},
        committed_at=clock(),
    )
    return store.record_commit(barrier, commit)


def pinned_range(barrier: Barrier, order: KeyOrder) -> SnapshotRange | None:
    """Return the barrier's chunk with its positions as values."""
    if barrier.chunk is None:
        return None
    return SnapshotRange(order.decode(barrier.chunk.after), order.decode(barrier.chunk.up_to))


def keys_read_after(barrier: Barrier, order: KeyOrder) -> SnapshotRange | None:
    """Return the keys whose rows the view shows once the barrier's epoch is committed (I1); None if no row."""
    if barrier.chunk is not None:
        return SnapshotRange(None, order.decode(barrier.chunk.up_to))
    if barrier.changes.let_through == "none":
        return None
    return SnapshotRange(None, order.decode(barrier.changes.position))


def _require_current(barrier: Barrier, settings: JobSettings, store: BackfillStore) -> None:
    if barrier.incarnation != settings.incarnation:
        raise StateError(
            f"epoch {barrier.epoch} belongs to an earlier incarnation of job {settings.job['name']}, which was "
            "rebuilt meanwhile; inject a new barrier"
        )
    if barrier.definition != settings.definition_digest:
        raise StateError(
            f"epoch {barrier.epoch} was pinned for another definition of job {settings.job['name']}; rebuild the job"
        )
    if store.state().epoch > barrier.epoch:
        raise StateError(
            f"the state of job {settings.job['name']} is of epoch {store.state().epoch}, but epoch {barrier.epoch} "
            "is not committed; the control tables were changed by something else: rebuild the job"
        )


# --------------------------------------------------------------------------------------------------------- finish


def finish_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """
    Record that the materialized view is finished, exactly once.

    :returns: the settings, whose ``finished_epoch`` is the epoch of the first commit with every vnode Completed.
    :raises NotFinishedError: if a vnode is not Completed, or the epoch that completed them is not committed.
    """
    settings = store.settings()
    if settings.finished_epoch is not None:
        return settings
    state = store.state()
    completing = [commit for commit in store.commits(since_epoch=state.epoch) if commit.completed]
    if not (state.completed and completing):
        raise NotFinishedError(
            f"job {settings.job['name']} is not finished: not every vnode is Completed as of epoch {state.epoch}; run "
            "more epochs"
        )

    def change(current: JobSettings) -> JobSettings | None:
        if current.finished_epoch is not None or current.incarnation != settings.incarnation:
            return None
        return current.changed(
            SettingsChange.FINISH,
            requested_by=requested_by,
            requested_at=clock(),
            finished_epoch=completing[0].epoch,
        )

    return store.change_settings(change)


def _who_cancelled(store: BackfillStore) -> str:
    records = reversed(store.settings_history())
    return next((record.requested_by for record in records if record.change is SettingsChange.CANCEL), "somebody")
