"""
Pin a barrier: decide and record everything that its epoch depends on, before the first write (I2).

It needs no JVM, only settings, state, and what the source and the strategy answer without Spark.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.epoch.stages import StageKind, stage_of
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, JobCancelledError, MaterializedViewError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.job.visibility import may_wait
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.watchdog import LOST_VIEW_REMEDY
from airflow_backfill_provider.jobs.chain import require_finished
from airflow_backfill_provider.jobs.chain_frontier import offset_as_of
from airflow_backfill_provider.jobs.cut_over import give_up_overdue
from airflow_backfill_provider.jobs.diamonds import ReadTogether
from airflow_backfill_provider.jobs.rate import next_limit
from airflow_backfill_provider.jobs.strategy_tables import clean_up_after_cancelling
from airflow_backfill_provider.jobs.succession import hand_over
from airflow_backfill_provider.lake.tables.lost_view import why_view_is_lost
from airflow_backfill_provider.protocol.changed_columns import former_state
from airflow_backfill_provider.protocol.changed_dimensions import costly_changes_of
from airflow_backfill_provider.protocol.decision import (
    EpochInputs,
    decide_epoch,
    depends_on_changes,
    idle_commit,
    next_barrier,
    why_idle,
)
from airflow_backfill_provider.protocol.other_windows import OtherWindows, other_windows, require_changes
from airflow_backfill_provider.protocol.refresh import chosen_refresh
from airflow_backfill_provider.protocol.window_ends import WindowEnds, instant_of
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.state.backfill_reader import LogEnd
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk
from airflow_backfill_provider.strategies.in_place_chunk import next_chunk

_INJECTIONS = 3
"""How often an injection starts over because the job was rebuilt meanwhile."""


@dataclass(frozen=True, slots=True)
class Injection:
    """
    The answer to a request for a barrier.

    :param barrier: the barrier to run, or ``None`` if there is nothing to do.
    :param commit: the epoch's commit, if it is already committed.
    :param reason: why there is nothing to do.
    :param newest: the newest committed epoch, if there is nothing to do.
    """

    barrier: Barrier | None
    commit: EpochCommit | None = None
    reason: str = ""
    newest: tuple[Barrier, EpochCommit] | None = field(default=None, compare=False)


def inject_barrier(
    *,
    store: BackfillStore,
    upstream: Source,
    requester: Requester,
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
) -> Injection:
    """
    Pin the next barrier, or return the one that is due.

    In order: the last barrier that this task run pinned before (a retry, a cleared task), unless it may pin another;
    the pinned barrier that is not committed, even after the job was cancelled; a new one up to the upstream's newest
    offset at ``until``.

    :param epochs: how many barriers a task run may pin; see
        :class:`~airflow_backfill_provider.core.epoch.task_run_epochs.TaskRunEpochs`.
    :param until: look at the upstream as of this instant, by default as it is now. A run of an Airflow schedule passes
        its ``data_interval_end``.
    :raises JobCancelledError: if the job was cancelled and no pinned epoch is left to complete.
    :raises UpstreamError: if the upstream can no longer be backfilled from.
    :raises UpstreamNotFinishedError: if the upstream is the view of another job, which has not finished it.
    :raises MaterializedViewError: if there is nothing to do, but the view is gone or another one.
    """
    for _ in range(_INJECTIONS):
        # Read this first: a barrier pinned from here on takes the next number, also after a rebuild, and is adopted.
        end = store.log_end()
        history = store.settings_history()
        settings = history[-1]
        if requester.is_task_run:
            mine = store.epochs_of(requester)
            ours = bool(mine.barriers) and mine.barriers[-1].incarnation == settings.incarnation
            if ours and not mine.may_pin_another(epochs):
                return Injection(mine.barriers[-1], None if mine.due else mine.commits[-1])
        previous, commit = _previous(store, settings, end)
        if previous is not None and commit is None:
            # Even if the job is cancelled: the epoch may be half written, and then the view matches no offset (I1).
            store.repair_state(settings)
            return Injection(previous)
        if settings.cancelled:
            clean_up_after_cancelling(store)
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled by {_who_cancelled(history)}; rebuild it to start over"
            )
        served = settings.first_window_after if previous is None else previous.upstream.to_offset
        others = {} if previous is None else {name: window.to_offset for name, window in previous.others.items()}
        by: dict[str, Any] = {"requested_by": str(requester), "now": clock()}
        if give_up_overdue(store, settings, **by) or hand_over(store, settings, served, others=others, **by):
            continue
        inputs = EpochInputs(
            history=history,
            state=store.repair_state(settings),
            previous=previous,
            commit=commit,
            last_epoch=end.last_epoch,
        )
        inputs = replace(inputs, former=former_state(inputs, upstream, store.storage_options))
        barrier, idle = _next_barrier(
            _Tables(store=store, upstream=upstream), inputs, requester=requester, until=until, now=clock()
        )
        if barrier is None:
            newest = None if previous is None or commit is None else (previous, commit)
            return Injection(None, reason=idle, newest=newest)
        with stage_of(StageKind.PIN).entered({}):
            pinned = store.pin(barrier)
        if pinned.incarnation != settings.incarnation or pinned.given_up is not None:
            continue
        if idle and pinned == barrier:
            done = store.record_commit(barrier, idle_commit(barrier, inputs, clock()))
            return Injection(None, reason=idle, newest=(barrier, done))
        return Injection(pinned, store.commit_of(pinned.epoch))
    raise ConcurrentUpdateError(f"the job at {store.location} is being rebuilt; try again")


def _require_view(store: BackfillStore, inputs: EpochInputs) -> None:
    """
    Refuse to say that there is nothing to do if the view is not the one that the last epoch left.

    :raises MaterializedViewError: saying what is wrong. An epoch with something to do finds it on Spark.
    """
    written = None if inputs.commit is None else inputs.commit.tables
    if lost := why_view_is_lost(inputs.settings, written, store.storage_options):
        raise MaterializedViewError(f"{lost}; {LOST_VIEW_REMEDY}")


def _previous(store: BackfillStore, settings: JobSettings, end: LogEnd) -> tuple[Barrier | None, EpochCommit | None]:
    """Return the newest barrier of the settings' incarnation, and its commit, if they exist."""
    if end.barrier is not None and end.barrier.incarnation == settings.incarnation:
        return end.barrier, end.commit
    previous = store.newest_barrier(settings) if end.last_epoch > settings.base_epoch else None
    return previous, None if previous is None else store.commit_of(previous.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """The tables that an injection reads."""

    store: BackfillStore
    upstream: Source


def _next_barrier(
    tables: _Tables, inputs: EpochInputs, *, requester: Requester, until: dt.datetime | None, now: dt.datetime
) -> tuple[Barrier | None, str]:
    """
    Return the next barrier, if one is to be pinned; and why Spark has nothing to do, if it has nothing.

    :raises MaterializedViewError: if it has nothing to do, but the view is gone.
    """
    barrier, idle = _planned_barrier(tables, inputs, requester=requester, until=until, now=now)
    if idle:
        _require_view(tables.store, inputs)
    return barrier, idle


def _planned_barrier(
    tables: _Tables, inputs: EpochInputs, *, requester: Requester, until: dt.datetime | None, now: dt.datetime
) -> tuple[Barrier | None, str]:
    """Return what :func:`_next_barrier` does, without a look at the view."""
    store, upstream = tables.store, tables.upstream
    instant = instant_of(inputs, until, now)
    newest, covered = _newest(tables, inputs, instant)
    if newest is None:
        return None, covered
    ends = _ends(tables, inputs, instant)
    newest = newest if ends is None else ends.of_lead
    limit = next_limit(
        inputs.settings,
        inputs.previous,
        newest,
        store=store,
        upstream=upstream,
        completed=inputs.state.completed,
        changes=inputs.new_records,
    )
    end, together = _window_end(inputs, ends, inputs.window_end(upstream, newest, limit.rows))
    described = upstream.at(end)
    view = described.view if described.offset == newest else upstream.view_at(newest)
    if view is not None and not view.is_finished:
        require_finished(upstream.view_at(), store.storage_options)
        return None, f"the upstream is a view that was not finished as of offset {newest}"
    described.require_same_table(inputs.settings.upstream)
    _require_as_created(described, inputs)
    if inputs.settings.needs_changes:
        described.require_changes()
    # What another query computes whole needs no change before.
    reads_changes = inputs.settings.needs_changes and inputs.rewrite.refresh is None
    upstream.require_same_values(inputs.from_offset, described.offset, inputs.settings.upstream)
    if inputs.previous is not None:
        store.require_settings_of(inputs.previous, inputs.settings)
    state_is_newer = inputs.state.epoch > inputs.last_known_epoch
    inputs.require_state(store.last_epoch() if state_is_newer else inputs.last_epoch, store.location)
    may_wait = inputs.could_wait and _changes_may_wait(upstream, inputs, now)
    chunk = _chunk(tables, inputs, described.offset, newest, may_wait=may_wait, rate_limit=limit.rows)
    decided = decide_epoch(inputs, *chunk, may_wait=may_wait, limit=limit, replay=inputs.replay(newest))
    after = decided.changes_after
    if decided.needs_changes and reads_changes:
        # Also if there are no changes: the epoch's position moves past the window.
        upstream.require_kept_values(after, described.offset, inputs.settings.upstream)
    others = _other_windows(tables, inputs, ends, together, now)
    has_changes = depends_on_changes(inputs, decided) and (
        others.changed or upstream.has_changes(after, described.offset)
    )
    idle = why_idle(inputs, decided, has_changes=has_changes)
    if idle and described.offset == inputs.from_offset and not others.are_wide:
        return None, _why_no_barrier(idle, ends)
    if decided.needs_changes and reads_changes and not idle:
        upstream.require_changes(after, described.offset)
        require_changes(inputs, others, store.storage_options)
    if not idle:
        refresh = chosen_refresh(inputs, decided, upstream, described.offset, others, store.storage_options)
        decided = replace(decided, refresh=refresh)
    window = _window(upstream, inputs, described, row_count=decided.chunk.row_count)
    barrier = next_barrier(inputs, decided, window, requester=requester, now=now)
    if not others.windows:
        return barrier, idle
    barrier = _with_others(barrier, others)
    costly = () if idle else costly_changes_of(inputs.settings, barrier, upstream, store.storage_options)
    return barrier.model_copy(update={"warnings": (*barrier.warnings, *costly)}), idle


def _ends(tables: _Tables, inputs: EpochInputs, instant: dt.datetime | None) -> WindowEnds | None:
    """Return where the windows of several upstreams may end; ``None`` if there is one upstream."""
    if not inputs.settings.others or instant is None:
        return None
    return WindowEnds.at(inputs, tables.upstream, instant, tables.store.storage_options)


def _window_end(inputs: EpochInputs, ends: WindowEnds | None, end: Offset) -> tuple[Offset, ReadTogether | None]:
    """
    Return where the window of the lead ends, and those of all upstreams, if there are several.

    :param end: where the strategy ends it.
    """
    if ends is None:
        return end, None
    together = ends.up_to(end)
    return together.offsets[inputs.settings.definition.lead_name], together


def _other_windows(
    tables: _Tables, inputs: EpochInputs, ends: WindowEnds | None, together: ReadTogether | None, now: dt.datetime
) -> OtherWindows:
    """Return the windows of the other upstreams; none if there is one upstream."""
    if ends is None or together is None:
        return OtherWindows()
    options = tables.store.storage_options
    return other_windows(inputs, ends.upstreams.sources, together, now=now, storage_options=options)


def _require_as_created(described: UpstreamDescription, inputs: EpochInputs) -> None:
    """Refuse an upstream whose columns changed that the query uses, or the former one whose condition is computed."""
    for known in filter(None, (inputs.settings.upstream, inputs.rewrite.reads)):
        described.require_as_created(known)


def _why_no_barrier(idle: str, ends: WindowEnds | None) -> str:
    """Return why no barrier is pinned: for which job this one waits, or else why an epoch has nothing to do."""
    return (ends.waits_for if ends is not None else "") or idle


def _with_others(barrier: Barrier, others: OtherWindows) -> Barrier:
    """Return the barrier of several upstreams."""
    return barrier.model_copy(
        update={
            "windows": (*barrier.windows, *others.windows),
            "instant": others.instant,
            "warnings": (*barrier.warnings, *others.warnings),
        }
    )


def _newest(tables: _Tables, inputs: EpochInputs, until: dt.datetime | None) -> tuple[Offset | None, str]:
    """
    Return the newest offset that the next window may end at, or why there is no window.

    :raises UpstreamError: if the upstream was replaced.
    """
    upstream, storage_options = tables.upstream, tables.store.storage_options
    settings, from_offset = inputs.settings, inputs.from_offset
    upstream.note_read(inputs.read_of_splits)
    upstream.refresh()
    if inputs.reached_point is not None:
        upstream.require_same_history(inputs.reached_point)
    to_offset = upstream.latest() if until is None else offset_as_of(upstream, until, storage_options)
    if to_offset is not None:
        to_offset = upstream.not_before(to_offset, from_offset)
    anyway = inputs.is_due_anyway or (inputs.rewrite and inputs.previous is not None)
    if anyway and (to_offset is None or to_offset < from_offset):
        # This belongs to no data interval: the next epoch does it, at the committed offset.
        to_offset = from_offset
    if to_offset is None:
        return None, f"the upstream has no offset as old as {until}"
    if to_offset < from_offset:
        upstream.at(to_offset).require_same_table(settings.upstream)
        return None, f"the window up to offset {to_offset} is covered: the epochs have read up to offset {from_offset}"
    return to_offset, ""


def _window(upstream: Source, inputs: EpochInputs, described: UpstreamDescription, *, row_count: int) -> UpstreamWindow:
    """Return the window up to an offset; its watermark is the latest commit time so far and never goes back (I3)."""
    committed_at = upstream.watermark(described.offset)
    last_watermark = inputs.previous.upstream.watermark if inputs.previous else committed_at
    return UpstreamWindow(
        relation=inputs.settings.definition.lead_name,
        table_id=described.table_id,
        from_offset=inputs.from_offset,
        to_offset=described.offset,
        watermark=max(committed_at, last_watermark),
        row_count=row_count,
        mark=upstream.point(described.offset).mark,
    )


def _chunk(
    tables: _Tables, inputs: EpochInputs, to_offset: Offset, newest: Offset, *, may_wait: bool, rate_limit: int | None
) -> tuple[NextChunk, Offset]:
    """
    Return the epoch's chunk, and the upstream's offset to read it at.

    While changes wait, that is the offset of the newest chunk, until the chunk would complete every vnode.
    """

    def chunk_at(offset: Offset) -> NextChunk:
        return next_chunk(
            ChunkInputs(
                settings=inputs.settings,
                rate_limit=rate_limit,
                state=inputs.state,
                upstream=tables.upstream,
                kept_up_to=inputs.kept_up_to,
                offset=offset,
                newest=newest,
                previous=inputs.previous,
                storage_options=tables.store.storage_options,
            )
        )

    resting = inputs.resting_offset if may_wait else None
    if resting is not None:
        chunk = chunk_at(resting)
        if not inputs.completes(chunk):
            return chunk, resting
    return chunk_at(to_offset), to_offset


def _changes_may_wait(upstream: Source, inputs: EpochInputs, now: dt.datetime) -> bool:
    """Return whether the changes that could wait stay readable until the view is finished."""
    oldest = upstream.committed_at(inputs.oldest_offset)
    # If even the commit's time is gone, its changes are about to go, too.
    return oldest is not None and may_wait(
        offsets=len(inputs.read_as_of),
        oldest_age=now - oldest,
        kept_for=upstream.changes_kept_for(),
    )


def _who_cancelled(history: Sequence[JobSettings]) -> str:
    records = reversed(history)
    return next(
        (record.requested_by for record in records if record.change is SettingsChange.CANCEL), "an unknown user"
    )
