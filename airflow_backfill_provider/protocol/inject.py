"""
Pinning a barrier: everything that its epoch depends on, decided and written down before the first write (I2).

No JVM: settings, state and the Delta logs say all there is to know.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.barrier import (
    Barrier,
    EpochCommit,
    PinnedPart,
    PinnedRange,
    PinnedRead,
    Repair,
    Requester,
    UpstreamWindow,
)
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, JobCancelledError, StateError
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.core.progress import BackfillState
from airflow_backfill_provider.core.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.visibility import Visibility, may_wait
from airflow_backfill_provider.crash_points import CrashPoint, reached
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.snapshot_plan import SnapshotPlan, plan_snapshot
from airflow_backfill_provider.state.store import BackfillStore, LogEnd

PARTIAL_REPAIR = (
    "the epoch repairs only what was chosen, and takes the rest of the view as it is; if somebody else wrote to the "
    "view, verify the job afterwards"
)

_INJECTIONS = 3
"""How often an injection starts over because the job is rebuilt under it."""


@dataclass(frozen=True, slots=True)
class Injection:
    """
    The answer to a request for a barrier.

    :param barrier: the barrier to run, or ``None`` if there is nothing to do.
    :param commit: the epoch's commit, if the barrier is done already.
    :param reason: why there is nothing to do.
    :param newest: if so, the newest epoch that is committed, if any is.
    """

    barrier: Barrier | None
    commit: EpochCommit | None = None
    reason: str = ""
    newest: tuple[Barrier, EpochCommit] | None = field(default=None, compare=False)


def inject_barrier(
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    requester: Requester,
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
) -> Injection:
    """
    Pin the next epoch, or return the one that is due.

    In order: the last barrier that this very task run pinned before (a retry, a cleared task), unless the task run may
    pin another; the barrier that somebody pinned and nobody committed; a new one up to the upstream's newest version at
    ``until``.

    :param epochs: how many a task run carries at most; see
        :class:`~airflow_backfill_provider.core.carried.CarriedEpochs`.
    :param until: look at the upstream as of this instant, by default as it is now. A run of an Airflow schedule passes
        its ``data_interval_end``.
    :raises JobCancelledError: if the job was cancelled.
    :raises UpstreamError: if the upstream can no longer be backfilled from.
    """
    for _ in range(_INJECTIONS):
        # Read first: what is pinned from here on, also after a rebuild, takes the next number first, and is adopted.
        end = store.log_end()
        history = store.settings_history()
        settings = history[-1]
        if requester.is_task_run:
            mine = store.carried_by(requester)
            ours = bool(mine.barriers) and mine.barriers[-1].incarnation == settings.incarnation
            if ours and not mine.may_pin_another(epochs):
                return Injection(mine.barriers[-1], None if mine.due else mine.commits[-1])
        if settings.cancelled:
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled by {_who_cancelled(history)}; rebuild it to start over"
            )
        previous, commit = _previous(store, settings, end)
        state = store.repair_state(settings)
        if previous is not None and commit is None:
            return Injection(previous)
        barrier, idle = _next_barrier(
            store,
            history,
            state,
            upstream,
            previous=previous,
            commit=commit,
            last_epoch=end.last_epoch,
            requester=requester,
            until=until,
            now=clock(),
        )
        if barrier is None:
            newest = None if previous is None or commit is None else (previous, commit)
            return Injection(None, reason=idle, newest=newest)
        pinned = store.pin(barrier)
        reached(CrashPoint.AFTER_PIN)
        if pinned.incarnation != settings.incarnation:
            continue
        if idle and pinned == barrier:
            done = store.record_commit(barrier, _idle_commit(barrier, settings, state, commit, clock()))
            return Injection(None, reason=idle, newest=(barrier, done))
        return Injection(pinned, store.commit_of(pinned.epoch))
    raise ConcurrentUpdateError(f"the job at {store.location} is being rebuilt; try again")


def _previous(store: BackfillStore, settings: JobSettings, end: LogEnd) -> tuple[Barrier | None, EpochCommit | None]:
    """Return the newest barrier of the settings' incarnation and its commit, of what there is."""
    if end.barrier is not None and end.barrier.incarnation == settings.incarnation:
        return end.barrier, end.commit
    previous = store.newest_barrier(settings) if end.last_epoch > settings.base_epoch else None
    return previous, None if previous is None else store.commit_of(previous.epoch)


def _idle_commit(
    barrier: Barrier, settings: JobSettings, state: BackfillState, previous: EpochCommit | None, now: dt.datetime
) -> EpochCommit:
    """
    Return the commit of an epoch in which nothing happens to the view; it needs no engine.

    The epoch moves the window past versions that only compacted files, say, so that the view does not seem to lag
    behind them and no later epoch needs their log.

    :param previous: the incarnation's newest commit.
    """
    continues = previous is not None and previous.epoch == barrier.prev_epoch
    return EpochCommit(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        snapshot_read_row_count=0,
        upstream_output_row_count=0,
        rows_read=settings.scan.rows_read(state),
        state_epoch=state.epoch,
        completed=state.completed,
        view_version=previous.view_version if previous and continues else None,
        watermark=barrier.upstream.watermark,
        seconds={},
        committed_at=now,
    )


def _next_barrier(
    store: BackfillStore,
    history: Sequence[JobSettings],
    state: BackfillState,
    upstream: UpstreamTable,
    *,
    previous: Barrier | None,
    commit: EpochCommit | None,
    last_epoch: int,
    requester: Requester,
    until: dt.datetime | None,
    now: dt.datetime,
) -> tuple[Barrier | None, str]:
    """Return the next barrier, if there is one to pin, and why there is nothing to do for Spark, if there is not."""
    settings = history[-1]
    records = list(_records_since(history, previous))
    repair = sum((record.repair for record in records), Repair())
    from_version = previous.upstream.to_version if previous else settings.first_version
    if previous is not None:
        upstream.require_same_log(previous.upstream)
    else:
        upstream.require_reaches(from_version)
    to_version = upstream.latest_version() if until is None else upstream.version_at(until)
    if repair and previous is not None and (to_version is None or to_version < from_version):
        # A repair belongs to no interval: whichever run comes next carries it, over what is committed.
        to_version = from_version
    if to_version is None:
        return None, f"the upstream has no version as old as {until}"
    described = upstream.at(to_version)
    described.require_same_table(settings.upstream, upstream.path)
    if to_version < from_version:
        return None, f"the window up to version {to_version} is covered: version {from_version} is committed already"
    described.require_as_created(settings.upstream, upstream.path)

    scan = settings.scan
    if previous is not None:
        store.require_settings_of(previous, settings)
    _require_state_of(state, previous, commit, settings, store)
    read_before = scan.read(state)
    mutations = [mutation for record in records if (mutation := record.as_mutation()) is not None]
    read_as_of = _read_as_of(previous)
    oldest_version = previous.oldest_version_after if previous else from_version
    # What is repaired is written as of this epoch, and finished views show every change.
    may_wait = bool(read_before and not (repair or state.completed)) and _changes_may_wait(
        settings, upstream, versions=len(read_as_of), oldest_version=oldest_version, now=now
    )
    plan, chunk_version = _plan(
        settings,
        state,
        upstream,
        from_version=from_version,
        to_version=to_version,
        previous=previous,
        may_wait=may_wait,
        storage_options=store.storage_options,
    )
    completes = _completes(settings, state, plan)
    waits = may_wait and not completes
    changes_after = from_version if waits else oldest_version
    # An arrangement is kept current for the rows that are not read yet, too.
    needs_changes = (bool(read_before) and not waits) or (scan.by_vnode and not state.completed)
    idle = ""
    if not (plan.parts or plan.arranges or repair):
        idle = _why_idle(settings, state, upstream, read_before, changes_after, to_version, needs_changes=needs_changes)
    if idle and to_version == from_version:
        return None, idle
    if needs_changes and not idle:
        upstream.require_changes(changes_after, to_version)
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
            row_count=plan.row_count,
        ),
        definition=settings.definition_digest,
        read_before=tuple(PinnedRange.of(covered, scan.order) for covered in read_before),
        read_as_of=read_as_of,
        publishes=not waits,
        older_version=chunk_version if plan.parts and chunk_version != to_version else None,
        parts=tuple(
            PinnedPart(ranges=tuple(PinnedRange.of(covered, scan.order) for covered in part.ranges))
            for part in plan.parts
        ),
        vnode_ranges=plan.vnode_ranges,
        repair=repair,
        completes=completes,
        rate_limit=settings.rate_limit,
        parallelism=settings.parallelism,
        paused=settings.paused,
        mutations=tuple(mutations),
        settings_sequence=settings.sequence,
        warnings=(*plan.warnings, *_repair_warnings(settings, repair)),
        injected_by=requester,
        injected_at=now,
    )
    return barrier, idle


def _plan(
    settings: JobSettings,
    state: BackfillState,
    upstream: UpstreamTable,
    *,
    from_version: int,
    to_version: int,
    previous: Barrier | None,
    may_wait: bool,
    storage_options: Mapping[str, str] | None,
) -> tuple[SnapshotPlan, int]:
    """
    Return what the epoch reads of the snapshot, and the upstream's version that it reads it at.

    While changes wait, chunks are read where the newest was, as long as there is anything left to read there: at a
    version that stays the same, files stay as large as they were, and what the chunk's changes wait behind is one
    version for all. The arrangement has its rows by epochs instead.
    """

    def plan_at(version: int) -> SnapshotPlan:
        return plan_snapshot(
            settings,
            state,
            upstream,
            from_version=from_version,
            version=version,
            previous=previous,
            storage_options=storage_options,
        )

    newest = max((read.version for read in previous.view_after), default=None) if previous and may_wait else None
    if newest is not None and not settings.scan.by_vnode:
        plan = plan_at(newest)
        if not _completes(settings, state, plan):
            return plan, newest
    return plan_at(to_version), to_version


def _read_as_of(previous: Barrier | None) -> tuple[PinnedRead, ...]:
    """Return the versions that the view's rows are as of, unless it is the previous epoch's alone."""
    view = previous.view_after if previous else ()
    return () if previous is None or {read.version for read in view} <= {previous.upstream.to_version} else view


def _changes_may_wait(
    settings: JobSettings,
    upstream: UpstreamTable,
    *,
    versions: int,
    oldest_version: int,
    now: dt.datetime,
) -> bool:
    if settings.definition.visibility is Visibility.EVERY_EPOCH:
        return False
    oldest = upstream.log.commit(oldest_version)
    # Where even the commit file was cleaned up, there is no time left.
    return oldest is not None and may_wait(
        versions=versions, oldest_age=now - oldest.timestamp, kept_for=upstream.changes_kept_for()
    )


def _repair_warnings(settings: JobSettings, repair: Repair) -> tuple[str, ...]:
    if not repair or settings.definition.vnodes <= set(repair.vnodes):
        return ()
    return (PARTIAL_REPAIR,)


def _completes(settings: JobSettings, state: BackfillState, plan: SnapshotPlan) -> bool:
    return settings.scan.advanced(state, epoch=state.epoch, ranges=plan.ranges, rows={}).completed


def _require_state_of(
    state: BackfillState,
    previous: Barrier | None,
    commit: EpochCommit | None,
    settings: JobSettings,
    store: BackfillStore,
) -> None:
    """Refuse a state that is not what the last epoch left: reading on from an older one would read rows twice."""
    known = max(settings.base_epoch, previous.epoch if previous else 0)
    # A state that is ahead is another runner's, whose barrier is pinned by now.
    if state.epoch > known and state.epoch > store.last_epoch():
        raise StateError(
            f"the state at {store.location} is of epoch {state.epoch}, but the barrier log ends with epoch "
            f"{store.last_epoch()}; the log was restored or changed: rebuild the job"
        )
    if commit is None:
        return
    rows_read = settings.scan.rows_read(state)
    if state.epoch < commit.state_epoch or rows_read < commit.rows_read or (commit.completed and not state.completed):
        raise StateError(
            f"the state at {store.location} has {rows_read} rows read as of epoch {state.epoch}, but epoch "
            f"{commit.epoch} left {commit.rows_read} as of epoch {commit.state_epoch}; it was restored or changed: "
            "rebuild the job"
        )


def _why_idle(
    settings: JobSettings,
    state: BackfillState,
    upstream: UpstreamTable,
    read_before: Sequence[KeyRange],
    changes_after: int,
    to_version: int,
    *,
    needs_changes: bool,
) -> str:
    """Return why an epoch without a chunk has nothing to do, or the empty string if it has."""
    waiting = "" if state.completed else ("paused, and " if settings.paused else "the rate limit is 0, and ")
    if not needs_changes and read_before:
        return waiting + "changes of what was read wait until the view is finished"
    if not needs_changes:
        return waiting + "nothing was read yet that could change"
    if to_version == changes_after or not upstream.changes_data(changes_after, to_version):
        return waiting + f"the upstream has no changes after version {changes_after}"
    return ""


def _records_since(history: Sequence[JobSettings], previous: Barrier | None) -> Iterator[JobSettings]:
    """Yield the settings' records that no barrier of the incarnation has carried yet."""
    seen = previous.settings_sequence if previous else 0
    for record in history:
        if record.incarnation == history[-1].incarnation and record.sequence > seen:
            yield record


def _who_cancelled(history: Sequence[JobSettings]) -> str:
    records = reversed(history)
    return next((record.requested_by for record in records if record.change is SettingsChange.CANCEL), "somebody")
