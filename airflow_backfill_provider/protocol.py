"""
The epoch protocol, whole: create, inject, execute, commit, finish.

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
import uuid
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
    digest,
)
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ConcurrentUpdateError,
    InvalidJobError,
    JobCancelledError,
    MaterializedViewError,
    NotFinishedError,
    StateError,
)
from airflow_backfill_provider.core.job import GREATEST_RATE_LIMIT, BackfillJob, Strategy
from airflow_backfill_provider.core.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.planner import ChunkPlan, plan_chunk
from airflow_backfill_provider.core.progress import (
    BackfillState,
    InProgress,
    NotStarted,
    SnapshotRange,
    position_of,
)
from airflow_backfill_provider.core.query import check_query
from airflow_backfill_provider.core.settings import (
    JobSettings,
    ResolvedUpstream,
    SettingsChange,
    UpstreamColumn,
)
from airflow_backfill_provider.crash_points import CrashPoint, reached
from airflow_backfill_provider.lake.upstream import UpstreamTable, UpstreamVersion
from airflow_backfill_provider.lake.view_identity import ViewIdentity, view_identity
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


# --------------------------------------------------------------------------------------------------------- create


def create_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Create a job: check it whole, then write its settings, its state and the view's empty table.

    Idempotent for an unchanged definition, in which case no engine is asked for unless a crash left something to
    repair.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :raises InvalidJobError: if the job is wrong, or was created with another definition.
    :raises BackfillError: if the upstream or the view's path cannot be used.
    """
    if store.created():
        settings = store.settings()
        _require_same_definition(job, settings)
    else:
        strategy = decide_strategy(job)
        described = upstream.at()
        resolved = resolve_upstream(job, described)
        engine().check(job, resolved, described.version, frozenset())
        settings = JobSettings(
            sequence=1,
            change=SettingsChange.CREATE,
            job=job.model_dump(mode="json"),
            strategy=strategy.value,
            upstream=resolved,
            incarnation=_new_incarnation(),
            rate_limit=job.rate_limit,
            requested_by=requested_by,
            requested_at=clock(),
        )
        # Somebody may have created the job meanwhile; then it is theirs.
        settings = store.create(settings)
        _require_same_definition(job, settings)
    store.repair_state()
    if not _has_view(settings, store):
        if store.commits(since_epoch=settings.base_epoch + 1):
            raise MaterializedViewError(
                f"materialized_view: the view of job {job.name} is gone from {job.materialized_view}, but epochs wrote "
                "to it; restore it, or rebuild the job"
            )
        _ensure_view(store, settings, engine())
    return settings


def is_created(job: BackfillJob, store: BackfillStore) -> bool:
    """
    Tell, without an engine, whether :func:`create_job` has nothing left to do.

    :raises InvalidJobError: if the job was created with another definition.
    """
    return store.created() and _has_view(require_job(job, store), store)


def rebuild_job(
    job: BackfillJob,
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    engine: Callable[[], Engine],
    requested_by: str,
    clock: Clock = utc_now,
) -> JobSettings:
    """
    Start a job over, possibly with another definition: new incarnation, no progress, an empty view.

    The view's path stays; its rows are gone as soon as this returns. Epochs count on. A rebuild that died is
    completed by :func:`create_job`, by the next epoch, or by rebuilding again.

    :raises InvalidJobError: if the job is wrong, or moves the view.
    """
    before = store.settings()
    if before.job["name"] != job.name:
        raise InvalidJobError(f"name: {job.state} holds job {before.job['name']}; a rebuild keeps a job's name")
    if before.job["materialized_view"] != job.materialized_view:
        raise InvalidJobError(
            f"materialized_view: a rebuild keeps the view at {before.job['materialized_view']}; to move it, create "
            "another job"
        )
    strategy = decide_strategy(job)
    described = upstream.at()
    resolved = resolve_upstream(job, described)
    made = engine()
    made.check(job, resolved, described.version, _incarnations(store))
    incarnation = _new_incarnation()

    def change(settings: JobSettings) -> JobSettings:
        return settings.changed(
            SettingsChange.REBUILD,
            requested_by=requested_by,
            requested_at=clock(),
            job=job.model_dump(mode="json"),
            strategy=strategy.value,
            upstream=resolved,
            incarnation=incarnation,
            state_table=f"vnode_state_{incarnation}",
            base_epoch=store.last_epoch(),
            rate_limit=job.rate_limit,
            paused=False,
            cancelled=False,
            finished_epoch=None,
        )

    settings = store.change_settings(change)
    store.repair_state()
    _ensure_view(store, settings, made)
    return settings


def plan_next(
    job: BackfillJob, *, upstream: UpstreamTable, version: int, state: BackfillState, rate_limit: int | None
) -> ChunkPlan:
    """Return the chunk that the next epoch would read at a version, without pinning anything."""
    order = key_order_of(job, upstream.at(version))
    files, keys = upstream.files(version, order)
    return plan_chunk(files, after=position_of(state.shared), rate_limit=rate_limit, order=order, keys=keys)


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
        if previous is not None and _commit_of(store, previous.epoch) is None:
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
    previous = _commit_of(store, barrier.prev_epoch)
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
    return Injection(barrier, _commit_of(store, barrier.epoch))


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
    _require_state_of(state, _commit_of(store, previous.epoch) if previous else None, store)
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
        definition=definition_digest(settings),
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
        committed = _commit_of(store, barrier.epoch)
        if committed is not None:
            return committed
        settings = store.settings()
        _require_current(barrier, settings, store)
        previous = _commit_of(store, barrier.prev_epoch)
        continues = previous is not None and previous.incarnation == settings.incarnation
        view_version = previous.view_version if previous and continues else None
        if view_version is None:
            engine.ensure_view(settings, _incarnations(store) - {settings.incarnation})
        try:
            writes = engine.execute(settings, barrier, view_version=view_version)
            return _commit(barrier, settings, writes, store=store, engine=engine, clock=clock)
        except BackfillError:
            # Another attempt may have committed this epoch and later ones, which is what this one ran into.
            committed = _commit_of(store, barrier.epoch)
            if committed is None:
                raise
            return committed


def _commit_of(store: BackfillStore, epoch: int) -> EpochCommit | None:
    return next((commit for commit in store.commits(since_epoch=epoch) if commit.epoch == epoch), None)


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
    if barrier.definition != definition_digest(settings):
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


# ------------------------------------------------------------------------------------------------------- mutations


def pause_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read no snapshot from the next barrier on; changes are still applied."""
    return _mutate(store, SettingsChange.PAUSE, requested_by, clock, paused=True)


def resume_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Read the snapshot again from the next barrier on."""
    return _mutate(store, SettingsChange.RESUME, requested_by, clock, paused=False)


def throttle_job(
    rate_limit: int | None, *, store: BackfillStore, requested_by: str, clock: Clock = utc_now
) -> JobSettings:
    """
    Read at most so many snapshot rows an epoch from the next barrier on.

    :param rate_limit: rows; ``None`` is unlimited, 0 reads none.
    :raises InvalidJobError: if it is negative.
    """
    if rate_limit is not None and not 0 <= rate_limit <= GREATEST_RATE_LIMIT:
        raise InvalidJobError(
            f"rate_limit: {rate_limit} is not allowed; allowed are null (unlimited), 0 (paused) and up to "
            f"{GREATEST_RATE_LIMIT}"
        )
    return _mutate(store, SettingsChange.THROTTLE, requested_by, clock, rate_limit=rate_limit, value=rate_limit)


def cancel_job(*, store: BackfillStore, requested_by: str, clock: Clock = utc_now) -> JobSettings:
    """Stop a job for good: no barrier is injected any more. Its view stays as the last epoch left it."""
    return _mutate(store, SettingsChange.CANCEL, requested_by, clock, cancelled=True)


def _mutate(
    store: BackfillStore, change: SettingsChange, requested_by: str, clock: Clock, **fields: object
) -> JobSettings:
    wanted = {name: value for name, value in fields.items() if name != "value"}

    def apply(settings: JobSettings) -> JobSettings | None:
        if settings.cancelled:
            if change is SettingsChange.CANCEL:
                return None
            raise JobCancelledError(f"job {settings.job['name']} was cancelled; rebuild it to start over")
        if all(getattr(settings, name) == value for name, value in wanted.items()):
            return None
        return settings.changed(change, requested_by=requested_by, requested_at=clock(), **fields)

    return store.change_settings(apply)


# --------------------------------------------------------------------------------------------------------- helpers


def definition_digest(settings: JobSettings) -> str:
    """Return the digest of all in the settings that decides which rows the view has."""
    job = {name: value for name, value in settings.job.items() if name != "rate_limit"}
    return digest({"job": job, "upstream": settings.upstream.model_dump(mode="json"), "strategy": settings.strategy})


def _require_same_definition(job: BackfillJob, settings: JobSettings) -> None:
    wanted, created = job.definition(), BackfillJob(**settings.job).definition()
    different = sorted(name for name in wanted if wanted[name] != created[name])
    if different:
        raise InvalidJobError(
            f"job {job.name} was created at {job.state} with another {', '.join(different)}; rebuild the job to "
            "change its definition"
        )


def require_job(job: BackfillJob, store: BackfillStore) -> JobSettings:
    """
    Return the settings of a created job whose definition is the given one.

    :raises JobNotCreatedError: if it was not created.
    :raises InvalidJobError: if it was created with another definition.
    """
    settings = store.settings()
    _require_same_definition(job, settings)
    return settings


def decide_strategy(job: BackfillJob) -> Strategy:
    """Return the strategy that a job is created with; never ``auto``."""
    if job.strategy is Strategy.ARRANGEMENT:
        raise InvalidJobError(
            "strategy: arrangement is not built yet; allowed are auto and no_shuffle (which scans more than its chunk "
            "where keys are in random order, and says so)"
        )
    return Strategy.NO_SHUFFLE


def resolve_upstream(job: BackfillJob, described: UpstreamVersion) -> ResolvedUpstream:
    """Return the upstream's identity and the columns that the job uses, or refuse what cannot work."""
    described.require_change_data_feed(job.upstream.path)
    names = list(described.types)
    for field_name, columns in (
        ("upstream.key", [column.column for column in job.upstream.key]),
        ("upstream.distribution_key", list(job.upstream.distribution_key)),
    ):
        for column in columns:
            if column not in described.types:
                raise InvalidJobError(
                    f"{field_name}: {job.upstream.path} has no column {column!r}; it has {', '.join(names)}"
                )
    order = key_order_of(job, described)
    for key in order.fields:
        key.kind  # noqa: B018 - raises for a type that cannot be a key
    query = check_query(job.query)
    query.refuse_functions_without_parentheses(names)
    used = {*query.columns_of(names), *order.names, *job.upstream.distribution_key}
    return ResolvedUpstream(
        table_id=described.table_id,
        columns=tuple(UpstreamColumn(name=name, type=described.types[name]) for name in names if name in used),
    )


def key_order_of(job: BackfillJob, described: UpstreamVersion) -> KeyOrder:
    """Return the order of the job's key, with the column types of a version of the upstream."""
    return KeyOrder(
        tuple(
            KeyField(name=column.column, type=described.types[column.column], descending=column.descending)
            for column in job.upstream.key
        )
    )


def _ensure_view(store: BackfillStore, settings: JobSettings, engine: Engine) -> None:
    with engine.exclusive(settings):
        engine.ensure_view(settings, _incarnations(store) - {settings.incarnation})


def _has_view(settings: JobSettings, store: BackfillStore) -> bool:
    wanted = ViewIdentity(settings.job["name"], settings.incarnation)
    return view_identity(settings.job["materialized_view"], store.storage_options) == wanted


def _incarnations(store: BackfillStore) -> frozenset[str]:
    return frozenset(record.incarnation for record in store.settings_history())


def _who_cancelled(store: BackfillStore) -> str:
    records = reversed(store.settings_history())
    return next((record.requested_by for record in records if record.change is SettingsChange.CANCEL), "somebody")


def _new_incarnation() -> str:
    return uuid.uuid4().hex[:12]
