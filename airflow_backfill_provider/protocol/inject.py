"""
Pinning a barrier: everything that its epoch depends on, decided and written down before the first write (I2).

No JVM: settings, state and the Delta logs say all there is to know.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.barrier import (
    Barrier,
    EpochCommit,
    PinnedPart,
    PinnedRange,
    PinnedRead,
    Repair,
    Requester,
    TableVersion,
    UpstreamWindow,
    left_behind,
)
from airflow_backfill_provider.core.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, JobCancelledError, StateError
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.core.progress import BackfillState
from airflow_backfill_provider.core.scan import rows_read
from airflow_backfill_provider.core.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.visibility import Visibility, may_wait
from airflow_backfill_provider.lake.upstream import UpstreamTable, UpstreamVersion
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.protocol.finish import clean_up_after_cancelling
from airflow_backfill_provider.state.store import BackfillStore, LogEnd
from airflow_backfill_provider.strategies import KINDS, Strategy
from airflow_backfill_provider.strategies.base import Situation, SnapshotPlan
from airflow_backfill_provider.strategies.chunk_plan import plan_snapshot

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
    pin another; the barrier that somebody pinned and nobody committed, also after the job was cancelled; a new one up
    to the upstream's newest version at ``until``.

    :param epochs: how many a task run carries at most; see
        :class:`~airflow_backfill_provider.core.carried.CarriedEpochs`.
    :param until: look at the upstream as of this instant, by default as it is now. A run of an Airflow schedule passes
        its ``data_interval_end``.
    :raises JobCancelledError: if the job was cancelled, and no epoch is half done.
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
        previous, commit = _previous(store, settings, end)
        if previous is not None and commit is None:
            # Also of a cancelled job: half of the epoch may be written, and the view be as of no version (I1).
            store.repair_state(settings)
            return Injection(previous)
        if settings.cancelled:
            clean_up_after_cancelling(store)
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled by {_who_cancelled(history)}; rebuild it to start over"
            )
        basis = _Basis(
            store=store,
            upstream=upstream,
            history=history,
            state=store.repair_state(settings),
            previous=previous,
            commit=commit,
            last_epoch=end.last_epoch,
        )
        barrier, idle = _next_barrier(basis, requester=requester, until=until, now=clock())
        if barrier is None:
            newest = None if previous is None or commit is None else (previous, commit)
            return Injection(None, reason=idle, newest=newest)
        pinned = store.pin(barrier)
        reached(CrashPoint.AFTER_PIN)
        if pinned.incarnation != settings.incarnation or pinned.given_up is not None:
            continue
        if idle and pinned == barrier:
            done = store.record_commit(barrier, _idle_commit(barrier, basis, clock()))
            return Injection(None, reason=idle, newest=(barrier, done))
        return Injection(pinned, store.commit_of(pinned.epoch))
    raise ConcurrentUpdateError(f"the job at {store.location} is being rebuilt; try again")


def _previous(store: BackfillStore, settings: JobSettings, end: LogEnd) -> tuple[Barrier | None, EpochCommit | None]:
    """Return the newest barrier of the settings' incarnation and its commit, of what there is."""
    if end.barrier is not None and end.barrier.incarnation == settings.incarnation:
        return end.barrier, end.commit
    previous = store.newest_barrier(settings) if end.last_epoch > settings.base_epoch else None
    return previous, None if previous is None else store.commit_of(previous.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Basis:
    """
    What the next barrier follows from: the job as the last epoch left it, and what was asked of it since.

    :param history: all records of the settings; the last one is in force.
    :param state: the committed state.
    :param previous: the newest barrier of the settings' incarnation, which is committed.
    :param commit: its commit.
    :param last_epoch: the newest epoch of all incarnations.
    """

    store: BackfillStore
    upstream: UpstreamTable
    history: Sequence[JobSettings]
    state: BackfillState
    previous: Barrier | None
    commit: EpochCommit | None
    last_epoch: int

    @property
    def settings(self) -> JobSettings:
        """The settings in force."""
        return self.history[-1]

    @property
    def strategy(self) -> Strategy:
        """How the job reads history."""
        return KINDS.named(self.settings.strategy)

    @property
    def from_version(self) -> int:
        """The version that the next window begins behind."""
        previous, settings = self.previous, self.settings
        return previous.upstream.to_version if previous else settings.first_version

    @property
    def come_to(self) -> TableVersion | None:
        """The upstream's version that the job has come to, by which its log is known again."""
        previous, settings = self.previous, self.settings
        return previous.upstream.come_to if previous else settings.start

    @property
    def asked(self) -> tuple[JobSettings, ...]:
        """The settings' records that no barrier of the incarnation has carried yet."""
        seen = self.previous.settings_sequence if self.previous else 0
        incarnation = self.settings.incarnation
        return tuple(record for record in self.history if record.incarnation == incarnation and record.sequence > seen)

    @property
    def repair(self) -> Repair:
        """What they ask to repair, together."""
        return sum((record.repair for record in self.asked), Repair())

    @property
    def read_before(self) -> tuple[KeyRange, ...]:
        """What was read so far."""
        return tuple(self.settings.scan.read(self.state))

    @property
    def read_as_of(self) -> tuple[PinnedRead, ...]:
        """The versions that the view's rows are as of, unless it is the previous epoch's alone."""
        if self.previous is None:
            return ()
        view = self.previous.view_after
        return () if {read.version for read in view} <= {self.previous.upstream.to_version} else view

    @property
    def oldest_version(self) -> int:
        """The oldest version that rows of the view are as of."""
        return self.previous.oldest_version_after if self.previous else self.from_version


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlannedEpoch:
    """
    What the next epoch does in a window.

    :param chunk: what it reads of the snapshot.
    :param chunk_version: the upstream's version that it reads that at.
    :param completes: whether every vnode is Completed with it.
    :param waits: whether it leaves the changes of what was read before to a later one.
    :param changes_after: the version behind which it looks for changes.
    :param needs_changes: whether it writes changes anywhere.
    """

    chunk: SnapshotPlan
    chunk_version: int
    completes: bool
    waits: bool
    changes_after: int
    needs_changes: bool


def _next_barrier(
    basis: _Basis, *, requester: Requester, until: dt.datetime | None, now: dt.datetime
) -> tuple[Barrier | None, str]:
    """Return the next barrier, if there is one to pin, and why there is nothing to do for Spark, if there is not."""
    described, covered = _window_end(basis, until)
    if described is None:
        return None, covered
    if basis.previous is not None:
        basis.store.require_settings_of(basis.previous, basis.settings)
    _require_state(basis)
    planned = _planned(basis, described.version, now)
    idle = _why_idle(basis, planned, described.version)
    if idle and described.version == basis.from_version:
        return None, idle
    if planned.needs_changes and not idle:
        basis.upstream.require_changes(planned.changes_after, described.version)
    return _barrier(basis, described, planned, requester=requester, now=now), idle


def _window_end(basis: _Basis, until: dt.datetime | None) -> tuple[UpstreamVersion | None, str]:
    """
    Return the version that the next window ends with, or why there is none.

    :raises UpstreamError: if the upstream is not the one that the job was created on, or not as it was.
    """
    settings, upstream, from_version = basis.settings, basis.upstream, basis.from_version
    if basis.come_to is not None:
        upstream.require_same_log(basis.come_to)
    to_version = upstream.latest_version() if until is None else upstream.version_at(until)
    if basis.repair and basis.previous is not None and (to_version is None or to_version < from_version):
        # A repair belongs to no interval: whichever run comes next carries it, over what is committed.
        to_version = from_version
    if to_version is None:
        return None, f"the upstream has no version as old as {until}"
    described = upstream.at(to_version)
    described.require_same_table(settings.upstream, upstream.path)
    if to_version < from_version:
        return None, f"the window up to version {to_version} is covered: version {from_version} is committed already"
    described.require_as_created(settings.upstream, upstream.path)
    return described, ""


def _planned(basis: _Basis, to_version: int, now: dt.datetime) -> _PlannedEpoch:
    """Return what the next epoch does in the window that ends with a version."""
    state, strategy, read_before = basis.state, basis.strategy, basis.read_before
    # What is repaired is written as of this epoch, and finished views show every change.
    may_wait = bool(read_before and not (basis.repair or state.completed)) and _changes_may_wait(basis, now)
    chunk, chunk_version = _chunk(basis, to_version, may_wait=may_wait)
    completes = _completes(basis, chunk)
    waits = may_wait and not completes
    return _PlannedEpoch(
        chunk=chunk,
        chunk_version=chunk_version,
        completes=completes,
        waits=waits,
        changes_after=basis.from_version if waits else basis.oldest_version,
        # Some strategies take the changes of rows that are not read yet, too.
        needs_changes=(bool(read_before) and not waits) or (strategy.takes_all_changes and not state.completed),
    )


def _barrier(
    basis: _Basis, described: UpstreamVersion, planned: _PlannedEpoch, *, requester: Requester, now: dt.datetime
) -> Barrier:
    """Write down what the next epoch does."""
    settings, to_version, chunk, repair = basis.settings, described.version, planned.chunk, basis.repair
    order = settings.scan.order
    mutations = (record.as_mutation() for record in basis.asked)
    return Barrier(
        job=settings.job["name"],
        incarnation=settings.incarnation,
        epoch=basis.last_epoch + 1,
        prev_epoch=basis.last_epoch,
        upstream=UpstreamWindow(
            table_id=described.table_id,
            from_version=basis.from_version,
            to_version=to_version,
            watermark=_watermark(basis, to_version),
            row_count=chunk.row_count,
            written_at=basis.upstream.log.written_at(to_version),
        ),
        definition=settings.definition_digest,
        read_before=tuple(PinnedRange.of(covered, order) for covered in basis.read_before),
        read_as_of=basis.read_as_of,
        publishes=not planned.waits,
        older_version=planned.chunk_version if chunk.parts and planned.chunk_version != to_version else None,
        parts=tuple(
            PinnedPart(ranges=tuple(PinnedRange.of(covered, order) for covered in part.ranges)) for part in chunk.parts
        ),
        vnode_ranges=chunk.vnode_ranges,
        repair=repair,
        completes=planned.completes,
        rate_limit=settings.rate_limit,
        parallelism=settings.parallelism,
        paused=settings.paused,
        mutations=tuple(mutation for mutation in mutations if mutation is not None),
        settings_sequence=settings.sequence,
        warnings=(*chunk.warnings, *_repair_warnings(settings, repair)),
        injected_by=requester,
        injected_at=now,
    )


def _watermark(basis: _Basis, to_version: int) -> dt.datetime:
    """Return the commit timestamp of a version, or a later one that was shown already: it never goes back (I3)."""
    committed_at = basis.upstream.watermark(to_version)
    return committed_at if basis.previous is None else max(committed_at, basis.previous.upstream.watermark)


def _idle_commit(barrier: Barrier, basis: _Basis, now: dt.datetime) -> EpochCommit:
    """
    Return the commit of an epoch in which nothing happens to the view; it needs no engine.

    The epoch moves the window past versions that only compacted files, say, so that the view does not seem to lag
    behind them and no later epoch needs their log.
    """
    state, before = basis.state, basis.commit
    continues = before is not None and before.epoch == barrier.prev_epoch
    return EpochCommit(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        snapshot_read_row_count=0,
        upstream_output_row_count=0,
        rows_read=rows_read(basis.settings.scan, state),
        state_epoch=state.epoch,
        completed=state.completed,
        **left_behind(before.tables if before and continues else None),
        watermark=barrier.upstream.watermark,
        seconds={},
        committed_at=now,
    )


def _chunk(basis: _Basis, to_version: int, *, may_wait: bool) -> tuple[SnapshotPlan, int]:
    """
    Return what the epoch reads of the snapshot, and the upstream's version that it reads it at.

    While changes wait, chunks are read where the newest was, as long as there is anything left to read there: at a
    version that stays the same, files stay as large as they were, and what the chunk's changes wait behind is one
    version for all. Not so where the strategy's own tables have the rows by epochs.
    """
    previous = basis.previous

    def plan_at(version: int) -> SnapshotPlan:
        return plan_snapshot(
            Situation(
                settings=basis.settings,
                state=basis.state,
                upstream=basis.upstream,
                from_version=basis.from_version,
                version=version,
                previous=previous,
                storage_options=basis.store.storage_options,
            )
        )

    # What failed there fails again: the chunk of an epoch that was given up is read where it may be corrected.
    reads_on = previous is not None and may_wait and previous.given_up is None
    newest = max((read.version for read in previous.view_after), default=None) if previous and reads_on else None
    if newest is not None and basis.strategy.reads_older_versions:
        plan = plan_at(newest)
        if not _completes(basis, plan):
            return plan, newest
    return plan_at(to_version), to_version


def _changes_may_wait(basis: _Basis, now: dt.datetime) -> bool:
    """Tell whether the changes of what was read may wait for the epoch that finishes the view."""
    if basis.settings.definition.visibility is Visibility.EVERY_EPOCH:
        return False
    oldest = basis.upstream.log.commit(basis.oldest_version)
    # Where even the commit file was cleaned up, there is no time left.
    return oldest is not None and may_wait(
        versions=len(basis.read_as_of),
        oldest_age=now - oldest.timestamp,
        kept_for=basis.upstream.changes_kept_for(),
    )


def _repair_warnings(settings: JobSettings, repair: Repair) -> tuple[str, ...]:
    if not repair or settings.definition.vnodes <= set(repair.vnodes):
        return ()
    return (PARTIAL_REPAIR,)


def _completes(basis: _Basis, plan: SnapshotPlan) -> bool:
    state = basis.state
    return basis.settings.scan.advanced(state, epoch=state.epoch, ranges=plan.ranges, rows={}).completed


def _require_state(basis: _Basis) -> None:
    """Refuse a state that is not what the last epoch left: reading on from an older one would read rows twice."""
    store, settings, state = basis.store, basis.settings, basis.state
    known = max(settings.base_epoch, basis.previous.epoch if basis.previous else 0)
    # A state that is ahead is another runner's, whose barrier is pinned by now.
    if state.epoch > known and state.epoch > store.last_epoch():
        raise StateError(
            f"the state at {store.location} is of epoch {state.epoch}, but the barrier log ends with epoch "
            f"{store.last_epoch()}; the log was restored or changed: rebuild the job"
        )
    commit = basis.commit
    if commit is None:
        return
    rows = rows_read(settings.scan, state)
    if state.epoch < commit.state_epoch or rows < commit.rows_read or (commit.completed and not state.completed):
        raise StateError(
            f"the state at {store.location} has {rows} rows read as of epoch {state.epoch}, but epoch "
            f"{commit.epoch} left {commit.rows_read} as of epoch {commit.state_epoch}; it was restored or changed: "
            "rebuild the job"
        )


def _why_idle(basis: _Basis, planned: _PlannedEpoch, to_version: int) -> str:
    """Return why the epoch has nothing to do, or the empty string if it has."""
    settings, state, after = basis.settings, basis.state, planned.changes_after
    if planned.chunk.parts or planned.chunk.prepares or basis.repair:
        return ""
    waiting = "" if state.completed else ("paused, and " if settings.paused else "the rate limit is 0, and ")
    if not planned.needs_changes and basis.read_before:
        return waiting + "changes of what was read wait until the view is finished"
    if not planned.needs_changes:
        return waiting + "nothing was read yet that could change"
    if to_version == after or not basis.upstream.changes_data(after, to_version):
        return waiting + f"the upstream has no changes after version {after}"
    return ""


def _who_cancelled(history: Sequence[JobSettings]) -> str:
    records = reversed(history)
    return next((record.requested_by for record in records if record.change is SettingsChange.CANCEL), "somebody")
