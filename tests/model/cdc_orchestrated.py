"""
Our order of operations over a database that shows its present rows only, as a sequence of atomic steps.

1. **Land.** Look at the slot's changes without consuming them, append them to the change log in one commit, and only
   then advance the slot.
2. **Inject.** Pin the next epoch: a window of landed changes, and of the rows that were read ahead those that it
   appends. A reading whose mark is not in the window must wait.
3. **Changes.** The net changes of the window, filtered by the *old* position, are merged by key.
4. **Snapshot.** Of the chunk's keys that changed after the reading's lower offset, up to the window's end, the last
   change counts; of any other key the row that was read.
5. **Read ahead.** Take the log's end and what is in progress; land up to there; the lower offset is one before the
   first transaction that others did not see. Then read the next ranges, each at a moment of its own, commit the rows
   with range and offset, and write the mark.
6. **State**, then the **barrier log**'s entry.

Overlapping writes of the view are what :mod:`tests.model.orchestrated` is about, so here each is one step.
:class:`~tests.model.cdc_job.Protocol` can weaken one rule at a time; the tests prove that each weakened protocol
breaks an invariant.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from tests.model.cdc_attempts import Attempt, Landing, Step
from tests.model.cdc_database import Reading
from tests.model.cdc_job import Job, World
from tests.model.cdc_landing import advance_slot, land, peek, read_change_log, read_slot, start_landing
from tests.model.cdc_reading import (
    begin_reading,
    commit_reading,
    find_offset,
    list_in_progress,
    read_range,
    write_mark,
)
from tests.model.tables import Commit, LogEntry, Part, Plan, State
from tests.model.truth import COMPLETED, Phase, Progress
from tests.model.upstream import net_changes

if TYPE_CHECKING:
    from tests.strategies import Barrier, Key, Row


def advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """Take one atomic step of an attempt."""
    return _STEPS[attempt.next](job, world, attempt)


# --- inject ---------------------------------------------------------------------------------------


def _read_state(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    return world, replace(attempt, state=world.state, next=Step.READ_LOG)


def _read_log(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    pinned = world.log.uncommitted()
    if pinned is not None:
        return world, replace(attempt, plan=pinned, next=Step.WRITE_CHANGES)
    return world, start_landing(job, attempt, Landing(for_reading=False))


def _plan(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    state = attempt.state
    assert state is not None
    up_to = max(world.changes.through - attempt.back, state.version)
    plan = Plan(
        epoch=state.epoch + 1,
        after=state.version,
        up_to=up_to,
        old=state.progress,
        new=_chunk_end(job, world, state.progress, up_to, attempt.settings),
        row_count_before=state.row_count,
        settings=attempt.settings,
    )
    return world, replace(attempt, plan=plan, next=Step.PIN)


def _pin(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = attempt.pinned
    world = replace(world, log=world.log.appended(plan))
    return world, replace(attempt, plan=world.log.pinned(plan.epoch), next=Step.WRITE_CHANGES)


def _chunk_end(job: Job, world: World, old: Progress, up_to: int, settings: Barrier) -> Progress:
    """Return the new position: as far as rows were read ahead, are in the window, and the rate limit allows."""
    if old == COMPLETED or settings.paused or settings.rate_limit == 0:
        return old
    order = job.upstream.order

    def is_usable(reading: Reading) -> bool:
        if reading.covered.ends_by(old.position, order) or not job.protocol.end_is_marked:
            return True
        mark = world.changes.mark(world.database, reading.epoch)
        return mark is not None and mark <= up_to

    usable = list(takewhile(is_usable, world.readings))
    if not usable or usable[-1].covered.ends_by(old.position, order):
        return old
    rows = [row for reading in usable for row in reading.rows if not old.covers(row.key, order)]
    if settings.rate_limit is not None and settings.rate_limit < len(rows):
        return Progress(Phase.IN_PROGRESS, rows[settings.rate_limit - 1].key)
    end = usable[-1].covered.up_to
    return COMPLETED if end is None else Progress(Phase.IN_PROGRESS, end)


# --- write ----------------------------------------------------------------------------------------


def _write_changes(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = attempt.pinned
    if world.view.transaction("changes") >= plan.epoch:
        return world, _skip(world, attempt, "changes", Step.WRITE_SNAPSHOT)
    net = net_changes(world.changes.changes(world.database, job.upstream, plan.after, plan.up_to))
    passed = {key: row for key, row in net.items() if plan.old.covers(key, job.upstream.order)}
    outputs = {key: None if row is None else job.query(row) for key, row in passed.items()}
    view = world.view.merged(outputs).logged(Commit("changes", plan, len(outputs)), transaction=True)
    return replace(world, view=view), replace(attempt, next=Step.WRITE_SNAPSHOT)


def _write_snapshot(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = attempt.pinned
    if world.view.transaction("snapshot") >= plan.epoch:
        return world, _skip(world, attempt, "snapshot", Step.BEGIN_READING)
    rows = _chunk(job, world, plan)
    outputs = [(row.key, output) for row in rows if (output := job.query(row)) is not None]
    view = world.view.appended(outputs).logged(Commit("snapshot", plan, len(rows)), transaction=True)
    return replace(world, view=view), replace(attempt, next=Step.BEGIN_READING)


def _chunk(job: Job, world: World, plan: Plan) -> list[Row]:
    """Return the rows that were read between the two positions, as of the window's end."""
    if plan.new == plan.old:
        return []
    order = job.upstream.order

    def in_chunk(key: Key) -> bool:
        return plan.new.covers(key, order) and not plan.old.covers(key, order)

    before = [reading for reading in world.readings if reading.epoch < plan.epoch]
    unread = [reading for reading in before if not reading.covered.ends_by(plan.old.position, order)]
    read = [row for reading in before for row in reading.rows if in_chunk(row.key)]
    if job.protocol.settled_after == "nothing":
        return read
    after = min(reading.changes_after for reading in unread)
    if job.protocol.settled_after == "the window's beginning":
        after = plan.after
    up_to = plan.up_to if job.protocol.settled_up_to == "the window's end" else world.changes.through
    net = net_changes(world.changes.changes(world.database, job.upstream, after, up_to))
    changed = [row for key, row in net.items() if row is not None and in_chunk(key)]
    return [*(row for row in read if row.key not in net), *changed]


def _skip(world: World, attempt: Attempt, part: Part, after: Step) -> Attempt:
    plan = attempt.pinned
    commit = world.view.commit_of(part, plan.epoch)
    return replace(attempt, next=after if commit is not None and commit.plan == plan else Step.REFUSED)


# --- commit ---------------------------------------------------------------------------------------


def _write_state(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = attempt.pinned
    read = world.view.commit_of("snapshot", plan.epoch)
    assert read is not None
    if world.state.epoch < plan.epoch:
        count = plan.row_count_before + read.rows
        world = replace(world, state=State(epoch=plan.epoch, version=plan.up_to, progress=plan.new, row_count=count))
    return world, replace(attempt, next=Step.WRITE_LOG)


def _write_log(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = attempt.pinned
    snapshot, changes = (world.view.commit_of(part, plan.epoch) for part in ("snapshot", "changes"))
    assert snapshot is not None
    assert changes is not None
    entry = LogEntry(plan.epoch, snapshot.rows, changes.rows)
    return replace(world, log=world.log.committed(entry)), replace(attempt, next=Step.DONE)


_STEPS = {
    Step.READ_STATE: _read_state,
    Step.READ_LOG: _read_log,
    Step.READ_SLOT: read_slot,
    Step.READ_CHANGE_LOG: read_change_log,
    Step.PEEK: peek,
    Step.LAND: land,
    Step.ADVANCE_SLOT: advance_slot,
    Step.PLAN: _plan,
    Step.PIN: _pin,
    Step.WRITE_CHANGES: _write_changes,
    Step.WRITE_SNAPSHOT: _write_snapshot,
    Step.BEGIN_READING: begin_reading,
    Step.LIST_IN_PROGRESS: list_in_progress,
    Step.FIND_OFFSET: find_offset,
    Step.READ_RANGE: read_range,
    Step.COMMIT_READING: commit_reading,
    Step.MARK: write_mark,
    Step.WRITE_STATE: _write_state,
    Step.WRITE_LOG: _write_log,
}
