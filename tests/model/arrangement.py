"""
This project's order of operations with a position for each vnode, and task runs that share an epoch.

The vnode of a row comes from its distribution key, which may be any column, so that an update can move a row from one
vnode to another under the same key. The scan goes by (vnode, key), over the *arrangement*: the upstream as of the
version at which the job was created, and the changes since. One epoch is a sequence of atomic steps that can stop,
repeat and overlap anywhere:

1. **Inject**, as in :mod:`tests.model.orchestrated`. Pinned are the version range ``(after, up_to]``, what was read
   before the epoch, and the ranges that each task run reads: the rests of its vnodes in progress, then those not
   started. If the creation died before it made the arrangement's base, the first epoch makes it and reads nothing.
2. **Arrange.** Net changes per (vnode, key) of what was not read *before* the epoch are appended to the arrangement,
   with the epoch as their stamp, also while the job is paused.
3. **Changes.** Net changes per (vnode, key) of what was read before the epoch, then net per key with the upsert
   winning, are merged into the view by key. This is **reported**.
4. **Parts**, in any order or side by side. Each run appends its chunk: rows of the base in its ranges that did not
   change since, and the newest of those that did, as of the epoch's stamp. Each part is reported.
5. Once the changes and all parts are reported, the next attempt commits the **state**, derived from plan and reports
   alone, and then the **barrier log**'s entry.

Every write has a transaction id (part, epoch), also a merge that finds nothing to change. Without a commit it could be
repeated, and then delete a key that a chunk has written meanwhile: a row that was read and did not pass the query's
filter may move to a vnode that is being read in the same epoch, and pass the filter there.

As in :mod:`tests.model.orchestrated`, values are immutable, :func:`advance` is a pure function, and a
:class:`~tests.model.arranged_job.Protocol` can weaken one rule at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tests.model.arranged_attempts import Attempt, Staged, Step
from tests.model.arranged_job import Job, World
from tests.model.arranged_planning import next_plan
from tests.model.arranged_tables import (
    ArrangedPlan,
    Position,
    Report,
    VnodeState,
)
from tests.model.tables import Commit, LogEntry
from tests.model.truth import COMPLETED, NOT_STARTED, Phase, Progress

if TYPE_CHECKING:
    from tests.strategies import Key, Row


def advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """Take one atomic step of a run."""
    return _STEPS[attempt.next](job, world, attempt)


def replay(plan: ArrangedPlan, *, only: Literal["changes"] | int | None = None) -> Attempt:
    """Return a run that executes a barrier injected long ago."""
    return _adopted(Attempt(settings=plan.settings, only=only), plan)


# --- inject ---------------------------------------------------------------------------------------


def _read_state(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    return world, replace(attempt, state=world.state, next=Step.READ_LOG)


def _read_log(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    pinned = world.log.uncommitted() if job.protocol.pinned else None
    if pinned is not None:
        return world, _adopted(attempt, pinned)
    if isinstance(attempt.only, int):
        # A task run for a part starts only for a pinned barrier.
        return world, replace(attempt, next=Step.DONE)
    assert attempt.state is not None
    candidate = next_plan(job, world, attempt.state, attempt.settings)
    return world, replace(attempt, plan=candidate, next=Step.APPEND_CANDIDATE)


def _append_candidate(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    return replace(world, log=world.log.appended(_plan(attempt))), replace(attempt, next=Step.ADOPT)


def _adopt(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    return world, _adopted(attempt, world.log.pinned(plan.epoch) if job.protocol.pinned else plan)


def _adopted(attempt: Attempt, plan: ArrangedPlan) -> Attempt:
    parts = range(len(plan.parts))
    if isinstance(attempt.only, int):
        mine = (attempt.only,) if attempt.only in parts else ()
        return replace(attempt, plan=plan, parts_left=mine, next=Step.AWAIT_CHANGES if mine else Step.DONE)
    first = attempt.first_part % len(parts) if parts else 0
    mine = (*parts[first:], *parts[:first]) if attempt.only is None else ()
    return replace(
        attempt, plan=plan, parts_left=mine, next=Step.MAKE_BASE if plan.arranges else Step.STAGE_ARRANGEMENT
    )


# --- changes --------------------------------------------------------------------------------------


def _make_base(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    made = world.arrangement.made(base_of(job))
    return replace(world, arrangement=made), replace(attempt, next=Step.STAGE_ARRANGEMENT)


def base_of(job: Job) -> list[tuple[Position, Row]]:
    """Return the upstream's rows as of the version at which the job was created."""
    return [((job.vnode_of(row), row.key), row) for row in job.upstream.as_of(0).values()]


def _stage_arrangement(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, rules = _plan(attempt), job.protocol
    net = rules.net(job.upstream.changes(plan.after, plan.up_to), job.vnode_of)
    order = job.upstream.order
    if rules.arranged != "all":
        net = {
            position: row for position, row in net.items() if not plan.before[position[0]].covers(position[1], order)
        }
    if not net or (rules.arranged == "unless_paused" and plan.settings.paused):
        return world, _after_arrangement(job, attempt)
    return world, replace(attempt, net=tuple(net.items()), next=Step.COMMIT_ARRANGEMENT)


def _commit_arrangement(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, has_txn = _plan(attempt), job.protocol.arrangement_has_txn
    assert attempt.net is not None
    if has_txn and world.arrangement.transaction >= plan.epoch:
        believed = world.arrangement.plan_of(plan.epoch) == plan
        return world, _after_arrangement(job, attempt) if believed else replace(attempt, next=Step.REFUSED)
    arrangement = world.arrangement.appended(plan, dict(attempt.net), transaction=has_txn)
    return replace(world, arrangement=arrangement), _after_arrangement(job, attempt)


def _after_arrangement(job: Job, attempt: Attempt) -> Attempt:
    late = not job.protocol.changes_first and attempt.parts_left
    return replace(attempt, net=None, next=Step.STAGE_PART if late else Step.STAGE_CHANGES)


def _stage_changes(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    net = job.protocol.net(job.upstream.changes(plan.after, plan.up_to), job.vnode_of)
    covers = _filter(job, plan)
    passed: dict[Key, Row | None] = {}
    for (vnode, key), row in net.items():
        if covers(vnode, key) and (row is not None or key not in passed):
            passed[key] = row
    if not passed:
        return world, replace(attempt, staged=Staged(world.view.version, (), (0,)), next=Step.REPORT_CHANGES)
    outputs = tuple((key, None if row is None else job.query(row)) for key, row in passed.items())
    staged = Staged(world.view.version, outputs, (len(outputs),))
    return world, replace(attempt, staged=staged, next=Step.COMMIT_CHANGES)


def _filter(job: Job, plan: ArrangedPlan) -> Callable[[int, Key], bool]:
    progress = plan.before if job.protocol.filter_by == "old" else plan.progress
    if job.protocol.filter_by == "last_row":
        progress = tuple(_last_row(job, plan, vnode, new) for vnode, new in enumerate(progress))
    other = job.protocol.filter_vnode

    def covers(vnode: int, key: Key) -> bool:
        looked_at = vnode if other is None else other(key) % job.vnode_count
        return progress[looked_at].covers(key, job.upstream.order)

    return covers


def _last_row(job: Job, plan: ArrangedPlan, vnode: int, new: Progress) -> Progress:
    """Return the position of the last row read, instead of the completion that the epoch has found out about."""
    if new != COMPLETED or plan.before[vnode] == COMPLETED:
        return new
    rows = job.upstream.as_of(plan.after).values()
    keys = [row.key for row in rows if job.vnode_of(row) == vnode]
    return Progress(Phase.IN_PROGRESS, keys[-1]) if keys else NOT_STARTED


def _commit_changes(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, staged, rules = _plan(attempt), attempt.staged, job.protocol
    assert isinstance(staged, Staged)
    if rules.changes_have_txn and world.view.transaction("changes") >= plan.epoch:
        return world, _believe(world, attempt, "changes", Step.REPORT_CHANGES)
    if world.view.version != staged.view_version:
        return world, replace(attempt, staged=None, next=Step.STAGE_CHANGES)
    present = {key for key, _, _ in world.view.bag}
    if rules.empty_merge_has_txn or any(output is not None or key in present for key, output in staged.rows):
        commit = Commit("changes", plan, staged.counts[0])
        view = world.view.merged(dict(staged.rows)).logged(commit, transaction=rules.changes_have_txn)
        world = replace(world, view=view)
    return world, replace(attempt, next=Step.REPORT_CHANGES)


def _report_changes(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    assert isinstance(attempt.staged, Staged)
    world = _reported(world, Report(_plan(attempt).epoch, None, attempt.staged.counts))
    return world, replace(attempt, staged=None, next=Step.STAGE_PART if attempt.parts_left else Step.STAGE_STATE)


# --- parts ----------------------------------------------------------------------------------------


def _await_changes(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    reported = world.reported(_plan(attempt).epoch)
    if attempt.only in reported:
        return world, replace(attempt, next=Step.STAGE_STATE)
    return world, replace(attempt, next=Step.STAGE_PART if None in reported else Step.DONE)


def _stage_part(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    found = chunk(job, world, _plan(attempt), attempt.parts_left[0])
    rows = Counter(vnode for (vnode, _), _ in found)
    outputs = tuple((row.key, output) for _, row in found if (output := job.query(row)) is not None)
    staged = Staged(world.view.version, outputs, tuple(rows[vnode] for vnode in range(job.vnode_count)))
    return world, replace(attempt, staged=staged, next=Step.COMMIT_PART if found else Step.REPORT_PART)


def chunk(job: Job, world: World, plan: ArrangedPlan, part: int) -> list[tuple[Position, Row]]:
    """Return what a run reads of the arrangement."""
    stamp = plan.epoch if job.protocol.chunk_at == "up_to" else plan.epoch - 1
    bound = stamp if job.protocol.stamps_bounded else None
    return world.arrangement.rows(plan.parts[part], job.upstream.order, up_to=bound)


def _commit_part(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, staged, rules = _plan(attempt), attempt.staged, job.protocol
    assert isinstance(staged, Staged)
    part = "snapshot" if rules.parts_have_txn == "shared" else f"snapshot/{attempt.parts_left[0]}"
    has_txn = rules.parts_have_txn != "none"
    if has_txn and world.view.transaction(part) >= plan.epoch:
        return world, _believe(world, attempt, part, Step.REPORT_PART)
    rows = [(key, output) for key, output in staged.rows if output is not None]
    view = world.view.appended(rows).logged(Commit(part, plan, sum(staged.counts)), transaction=has_txn)
    return replace(world, view=view), replace(attempt, next=Step.REPORT_PART)


def _report_part(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    assert isinstance(attempt.staged, Staged)
    part, *left = attempt.parts_left
    world = _reported(world, Report(_plan(attempt).epoch, part, attempt.staged.counts))
    after = Step.STAGE_PART if left else Step.STAGE_STATE
    if not left and not job.protocol.changes_first and attempt.only is None:
        after = Step.STAGE_CHANGES
    return world, replace(attempt, staged=None, parts_left=tuple(left), next=after)


def _reported(world: World, report: Report) -> World:
    """Write a report, unless the run's part was reported before."""
    known = report.part in world.reported(report.epoch)
    return world if known else replace(world, reports=world.reports | {report})


def _believe(world: World, attempt: Attempt, part: str, after: Step) -> Attempt:
    commit = world.view.commit_of(part, _plan(attempt).epoch)
    return replace(attempt, next=after if commit is not None and commit.plan == attempt.plan else Step.REFUSED)


# --- commit ---------------------------------------------------------------------------------------


def _stage_state(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    reported = world.reported(plan.epoch)
    if job.protocol.all_parts_awaited and set(reported) != {None, *range(len(plan.parts))}:
        return world, replace(attempt, next=Step.DONE)
    read = [rows for part, rows in reported.items() if part is not None]
    state = VnodeState(
        epoch=plan.epoch,
        version=plan.up_to,
        vnodes=plan.progress,
        row_counts=tuple(sum(counts) for counts in zip(plan.rows_before, *read, strict=True)),
    )
    return world, replace(attempt, staged=state, next=Step.COMMIT_STATE)


def _commit_state(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    state = attempt.staged
    assert isinstance(state, VnodeState)
    if not job.protocol.state_fenced or world.state.epoch < state.epoch:
        world = replace(world, state=state)
    return world, replace(attempt, staged=None, next=Step.STAGE_LOG)


def _stage_log(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    reported = world.reported(plan.epoch)
    read = sum(sum(rows) for part, rows in reported.items() if part is not None)
    entry = LogEntry(plan.epoch, read, sum(reported.get(None, ())))
    return world, replace(attempt, staged=entry, next=Step.COMMIT_LOG)


def _commit_log(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    entry = attempt.staged
    assert isinstance(entry, LogEntry)
    return replace(world, log=world.log.committed(entry)), replace(attempt, staged=None, next=Step.DONE)


def _plan(attempt: Attempt) -> ArrangedPlan:
    assert attempt.plan is not None
    return attempt.plan


_STEPS = {
    Step.READ_STATE: _read_state,
    Step.READ_LOG: _read_log,
    Step.APPEND_CANDIDATE: _append_candidate,
    Step.ADOPT: _adopt,
    Step.MAKE_BASE: _make_base,
    Step.STAGE_ARRANGEMENT: _stage_arrangement,
    Step.COMMIT_ARRANGEMENT: _commit_arrangement,
    Step.STAGE_CHANGES: _stage_changes,
    Step.COMMIT_CHANGES: _commit_changes,
    Step.REPORT_CHANGES: _report_changes,
    Step.AWAIT_CHANGES: _await_changes,
    Step.STAGE_PART: _stage_part,
    Step.COMMIT_PART: _commit_part,
    Step.REPORT_PART: _report_part,
    Step.STAGE_STATE: _stage_state,
    Step.COMMIT_STATE: _commit_state,
    Step.STAGE_LOG: _stage_log,
    Step.COMMIT_LOG: _commit_log,
}
