"""
Decide what the next epoch does, from the state that the last epoch left and the settings changed since.

This module neither reads nor writes; :mod:`~airflow_backfill_provider.protocol.inject` does both.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.epoch.approvals import is_withheld, publishes_view
from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedPart, PinnedRange, PinnedRead
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.held_up import counted, held_up_before
from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.refresh import ASKED_FOR, PinnedRefresh
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.core.scan.table_version import commit_fields
from airflow_backfill_provider.jobs.rate import NextLimit
from airflow_backfill_provider.protocol.rewrite import FormerState, Rewrite, rewrite_of
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.strategies import KINDS, Strategy
from airflow_backfill_provider.strategies.base import NextChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochInputs:
    """
    The facts that the next barrier is decided from: the job as the last epoch left it, and its settings since.

    :param history: all records of the settings; the last one is in force.
    :param state: the committed state.
    :param previous: the newest barrier of the settings' incarnation, which is committed.
    :param commit: its commit.
    :param last_epoch: the newest epoch of all incarnations.
    :param former: what a repair and a changed query find.
    """

    history: Sequence[JobSettings]
    state: BackfillState
    previous: Barrier | None
    commit: EpochCommit | None
    last_epoch: int
    former: FormerState = field(default_factory=FormerState)

    @property
    def settings(self) -> JobSettings:
        """The settings in force."""
        return self.history[-1]

    @property
    def strategy(self) -> Strategy:
        """The job's strategy."""
        return KINDS.named(self.settings.strategy)

    @property
    def from_offset(self) -> Offset:
        """The offset that the next window begins after."""
        previous, settings = self.previous, self.settings
        return previous.upstream.to_offset if previous else settings.first_window_after

    @property
    def reached_point(self) -> HistoryPoint | None:
        """The point of the upstream's history that the job has reached."""
        previous, settings = self.previous, self.settings
        return previous.upstream.reached_point if previous else settings.first_point

    @property
    def new_records(self) -> tuple[JobSettings, ...]:
        """The settings' records that are not yet in a barrier of the incarnation."""
        in_force = self.previous.settings_sequence if self.previous else 0
        incarnation = self.settings.incarnation
        return tuple(
            record for record in self.history if record.incarnation == incarnation and record.sequence > in_force
        )

    @property
    def is_due_anyway(self) -> bool:
        """Whether the next epoch writes the rows that the view begins with, or marks an approved view as finished."""
        begins = self.previous is None and self.settings.first_rows is not None
        return begins or publishes_view(self.settings, self.commit)

    @property
    def rewrite(self) -> Rewrite:
        """The rows to write because of these records: all repairs that they request, and a changed query."""
        asked = rewrite_of(self.history, self.previous, self.new_records, self.former)
        return Rewrite(left_out=self.former.lost) if self.former.lost else asked

    @property
    def read_before(self) -> tuple[KeyRange, ...]:
        """The ranges that were read so far."""
        return tuple(self.settings.scan.read(self.state))

    @property
    def read_of_splits(self) -> Mapping[int, int]:
        """Split → the place after the last row that was read, if the upstream has splits."""
        return self.strategy.read_of_splits(self.settings, self.state, self.from_offset)

    @property
    def read_as_of(self) -> tuple[PinnedRead, ...]:
        """The offsets that the view's rows are as of; empty if all are as of the previous epoch's offset."""
        if self.previous is None:
            return ()
        view = self.previous.view_after
        return () if {read.offset for read in view} <= {self.previous.upstream.to_offset} else view

    @property
    def oldest_offset(self) -> Offset:
        """The oldest offset that any row of the view is as of."""
        return self.previous.oldest_offset_after if self.previous else self.from_offset

    @property
    def could_wait(self) -> bool:
        """
        Whether changes could wait for the epoch that finishes the view, if they stay readable.

        A repair writes rows as of this epoch, and a finished view shows every change, so then they cannot. If the
        strategy ends the windows, changes wait outside of them.
        """
        never = self.rewrite or self.state.completed or self.strategy.ends_windows
        # A strategy with tables of its own can leave the changes of unread rows in the log, too.
        has_any = self.read_before or self.strategy.takes_all_changes
        return bool(has_any and not never) and self.settings.definition.visibility is not Visibility.EVERY_EPOCH

    @property
    def kept_up_to(self) -> Offset:
        """The offset that a strategy's own tables have the unread rows as of; see :attr:`Barrier.kept_up_to`."""
        return self.previous.kept_up_to_after if self.previous else self.from_offset

    @property
    def resting_offset(self) -> Offset | None:
        """
        The offset of the newest chunk, if the next chunk may be read at it too.

        At a fixed offset the files don't change, and the changes of all chunks wait after the same offset. If the
        strategy has tables of its own, the first chunk is read at the offset that they are as of.
        """
        previous, strategy = self.previous, self.strategy
        # A chunk that was given up would fail there again; a newer offset may have the correction.
        if not strategy.reads_older_offsets or (previous is not None and previous.given_up is not None):
            return None
        was_read = previous is not None and bool(previous.view_after)
        return self.kept_up_to if was_read or strategy.takes_all_changes else None

    def replay(self, newest: Offset) -> ReplayEpoch | None:
        """
        Return the next epoch's place in the replay of changes that waited; ``None`` if it replays nothing.

        :param newest: the newest offset that its window may end at.
        """
        if self.state.completed:
            return None
        return self.strategy.replay(self.state, self.previous, newest.distance_from(self.from_offset))

    def window_end(self, upstream: Source, newest: Offset, rate_limit: int | None) -> Offset:
        """
        Return the offset that the next window ends at.

        :param newest: the newest offset that it may end at.
        :param rate_limit: the next epoch's rate limit, in rows.
        """
        if self.state.completed or newest < self.from_offset:
            return newest
        return self.strategy.window_end(
            self.settings,
            self.state,
            upstream,
            self.from_offset,
            newest,
            rate_limit=rate_limit,
            replay=self.replay(newest),
        )

    def completes(self, chunk: NextChunk) -> bool:
        """Return whether every vnode is Completed after a chunk is read."""
        state = self.state
        return self.settings.scan.advanced(state, epoch=state.epoch, ranges=chunk.ranges, rows={}).completed

    def rows_left(self, chunk: NextChunk) -> int | None:
        """
        Return about how many snapshot rows the epoch before left; ``None`` if that is not known.

        Rows and view are compared as of the end of that epoch, because new rows may belong to what was read.
        """
        if self.state.completed:
            return None
        if chunk.unread is not None:
            return chunk.unread
        if self.previous is None or not self.read_before:
            return chunk.row_count
        present = self.commit.rows_present if self.commit else None
        return None if present is None else self.previous.upstream.row_count - present

    @property
    def last_known_epoch(self) -> int:
        """The newest epoch that the state of the incarnation may be of."""
        return max(self.settings.base_epoch, self.previous.epoch if self.previous else 0)

    def require_state(self, last_epoch: int, location: str) -> None:
        """
        Refuse a state that the last epoch did not leave: continuing from an older one would read rows twice.

        :param last_epoch: the newest epoch of the barrier log, read again if the state is of a newer epoch; then
            another process has pinned that epoch meanwhile.
        :param location: the location of the control tables, for the message.
        :raises StateError: saying what differs.
        """
        settings, state, commit = self.settings, self.state, self.commit
        if state.epoch > max(self.last_known_epoch, last_epoch):
            raise StateError(
                f"the state at {location} is of epoch {state.epoch}, but the barrier log ends with epoch {last_epoch}; "
                "the log was restored or changed: rebuild the job"
            )
        if commit is None:
            return
        rows = rows_read(settings.scan, state)
        if state.epoch < commit.state_epoch or rows < commit.rows_read or (commit.completed and not state.completed):
            raise StateError(
                f"the state at {location} has {rows} rows read as of epoch {state.epoch}, but epoch {commit.epoch} "
                f"left {commit.rows_read} as of epoch {commit.state_epoch}; it was restored or changed: rebuild the job"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextEpoch:
    """
    What the next epoch does.

    :param chunk: the chunk that it reads.
    :param chunk_offset: the upstream's offset of the chunk.
    :param completes: whether every vnode is Completed after it.
    :param waits: whether it leaves the changes of rows that were read before to a later epoch.
    :param changes_after: the offset after which it looks for changes.
    :param needs_changes: whether it writes changes to any table.
    :param limit: its rate limit.
    :param replay: its place in the replay of changes that waited; ``None`` if it replays nothing.
    :param refresh: whether it computes the whole view, and why; ``None`` if the job leaves no choice.
    """

    chunk: NextChunk
    chunk_offset: Offset
    completes: bool
    waits: bool
    changes_after: Offset
    needs_changes: bool
    limit: NextLimit
    replay: ReplayEpoch | None = None
    refresh: PinnedRefresh | None = None


def decide_epoch(
    inputs: EpochInputs,
    chunk: NextChunk,
    chunk_offset: Offset,
    *,
    may_wait: bool,
    limit: NextLimit,
    replay: ReplayEpoch | None = None,
) -> NextEpoch:
    """
    Return what the next epoch does.

    :param chunk: the chunk that it reads.
    :param chunk_offset: the upstream's offset of the chunk.
    :param may_wait: whether the changes of read rows may wait.
    :param limit: the rate limit that the chunk was chosen with.
    :param replay: the epoch's place in the replay, if it has one.
    """
    state, read_before, keeps = inputs.state, inputs.read_before, inputs.strategy.takes_all_changes
    completes = inputs.completes(chunk)
    # A strategy's own tables get changes only together with the view, so a chunk of newer rows ends the waiting. And
    # without rows in the view, nothing would tell which offset these tables are as of.
    must_publish = completes or (keeps and chunk_offset != inputs.resting_offset) or not (read_before or chunk.parts)
    waits = may_wait and not must_publish
    return NextEpoch(
        chunk=chunk,
        chunk_offset=chunk_offset,
        completes=completes,
        waits=waits,
        changes_after=inputs.from_offset if waits else inputs.oldest_offset,
        # Some strategies take the changes of rows that are not read yet, too.
        needs_changes=not waits and (bool(read_before) or (keeps and not state.completed)),
        limit=limit,
        replay=replay,
    )


def depends_on_changes(inputs: EpochInputs, decided: NextEpoch) -> bool:
    """Return whether an epoch has something to do only if the upstream has changes for it."""
    return decided.needs_changes and not _has_other_work(inputs, decided)


def _has_other_work(inputs: EpochInputs, decided: NextEpoch) -> bool:
    """Return whether an epoch has something to do even if the upstream has no changes."""
    return bool(decided.chunk.parts or decided.chunk.prepares or inputs.rewrite or inputs.is_due_anyway)


def why_idle(inputs: EpochInputs, decided: NextEpoch, *, has_changes: bool) -> str:
    """
    Return why an epoch has nothing to do, or the empty string if it has.

    :param has_changes: whether there are changes after :attr:`NextEpoch.changes_after`; see :func:`depends_on_changes`.
    """
    settings, state = inputs.settings, inputs.state
    if _has_other_work(inputs, decided):
        return ""
    waiting = "" if state.completed else ("paused, and " if settings.paused else "the rate limit is 0, and ")
    ends_before_changes = inputs.strategy.ends_windows and decided.changes_after == settings.first_offset
    changes_wait = not decided.needs_changes or (ends_before_changes and not has_changes and not state.completed)
    if changes_wait and inputs.read_before:
        return waiting + "changes of what was read wait until the view is finished"
    if not decided.needs_changes:
        return waiting + "nothing was read yet that could change"
    return "" if has_changes else waiting + f"the upstream has no changes after offset {decided.changes_after}"


def next_barrier(
    inputs: EpochInputs, decided: NextEpoch, window: UpstreamWindow, *, requester: Requester, now: dt.datetime
) -> Barrier:
    """Return the barrier for what the next epoch does in a window."""
    settings, to_offset, chunk, rewrite = inputs.settings, window.to_offset, decided.chunk, inputs.rewrite
    order, replay = settings.scan.order, decided.replay
    steps = to_offset.distance_from(window.from_offset)
    refresh = ASKED_FOR if decided.needs_changes and not settings.needs_changes else decided.refresh
    unread, held_up = counted(inputs.previous, inputs.rows_left(chunk))
    mutations = (record.as_mutation() for record in inputs.new_records)
    return Barrier(
        job=settings.job["name"],
        incarnation=settings.incarnation,
        epoch=inputs.last_epoch + 1,
        prev_epoch=inputs.last_epoch,
        windows=(window,),
        definition=settings.definition_digest,
        read_before=tuple(PinnedRange.of(covered, order) for covered in inputs.read_before),
        read_as_of=inputs.read_as_of,
        publishes=not decided.waits,
        refresh=rewrite.refresh or refresh,
        older_offset=decided.chunk_offset if chunk.parts and decided.chunk_offset != to_offset else None,
        parts=tuple(
            PinnedPart(ranges=tuple(PinnedRange.of(covered, order) for covered in part.ranges)) for part in chunk.parts
        ),
        vnode_ranges=chunk.vnode_ranges,
        repair=rewrite.repair,
        filter_change=rewrite.filter_change,
        columns_change=rewrite.columns_change,
        completes=decided.completes,
        withheld=is_withheld(settings),
        rate_limit=decided.limit.rows,
        rate=decided.limit.pinned(settings.rate_limit),
        parallelism=settings.parallelism,
        paused=settings.paused,
        mutations=tuple(mutation for mutation in mutations if mutation is not None),
        settings_sequence=settings.sequence,
        replay=replay.number if replay else 0,
        unread=unread,
        held_up=held_up_before(inputs.previous, inputs.new_records) + held_up,
        warnings=(
            *chunk.warnings,
            *(replay.warnings(steps, decided.limit.rows) if replay else ()),
            *rewrite.warnings(settings.definition.vnodes),
        ),
        injected_by=requester,
        injected_at=now,
    )


def idle_commit(barrier: Barrier, inputs: EpochInputs, now: dt.datetime) -> EpochCommit:
    """
    Return the commit of an epoch that does not change the view; it needs no engine.

    Such an epoch moves the window past versions that only compacted files, for example. So the view does not seem to
    lag behind, and no later epoch needs the log of these versions.
    """
    state, before = inputs.state, inputs.commit
    continues = before is not None and before.epoch == barrier.prev_epoch
    return EpochCommit(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        snapshot_read_row_count=0,
        upstream_output_row_count=0,
        rows_read=rows_read(inputs.settings.scan, state),
        state_epoch=state.epoch,
        completed=state.completed,
        withheld=barrier.withheld,
        **commit_fields(before.tables if before and continues else None),
        watermark=barrier.upstream.watermark,
        seconds={},
        committed_at=now,
    )
