"""
Our order of operations: one epoch as a sequence of atomic steps that can stop, repeat and overlap anywhere.

1. **Inject.** Read state and barrier log. A pinned barrier without an entry is returned again; otherwise pin
   the next one: epoch, version range ``(after, up_to]``, old and new position, settings. The first candidate
   in log order wins.
2. **Changes.** The net changes of ``(after, up_to]``, filtered by the *old* position, are merged by key.
3. **Snapshot.** The rows between the old and the new position, as of ``up_to``, are appended.
4. **State**, derived from the plan and the view's log alone, then the **barrier log**'s entry.

Both writes of the view are split into staging (read, compute) and the commit, since that is where attempts
overlap. They have a transaction id (part, epoch), which makes a replay and a zombie a no-op; a skipped write is
believed only if the view's log shows it with the same digest. A merge that was staged on an older version of
the view is staged again.

World and attempts are immutable values and :func:`advance` is a pure function, so that a test can fork the
world at any step, keep a zombie and wake it in another future. :class:`Protocol` can weaken one rule at a
time; the tests prove that each weakened protocol breaks an invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from tests.model.tables import BarrierLog, Commit, LogEntry, Part, Plan, State, View
from tests.model.truth import COMPLETED, Output, Phase, Progress, Query, true_view
from tests.model.upstream import Change, KeyOrder, Upstream, net_changes

if TYPE_CHECKING:
    from tests.strategies import Barrier, Key, Row

Planner = Callable[[Upstream, int, Progress, int], Progress]
"""Upstream, version, old progress, rate limit -> new progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is what keeps an invariant."""

    changes_have_txn: bool = True
    snapshot_has_txn: bool = True
    pinned: bool = True
    digest_checked: bool = True
    state_fenced: bool = True
    chunk_at: Literal["up_to", "after"] = "up_to"
    filter_by: Literal["old", "new"] = "old"
    net: Callable[[Iterable[Change]], dict[Key, Row | None]] = net_changes


def plan_by_rows(upstream: Upstream, version: int, old: Progress, rate_limit: int) -> Progress:
    """Put the new position on the last row that the rate limit allows."""
    rest = upstream.rows_after(version, old.position)
    return COMPLETED if len(rest) <= rate_limit else Progress(Phase.IN_PROGRESS, rest[rate_limit - 1].key)


def plan_between_rows(upstream: Upstream, version: int, old: Progress, rate_limit: int) -> Progress:
    """
    Put the new position as far as the rate limit allows, also onto a key that has no row at this version.
    """
    rest = upstream.rows_after(version, old.position)
    if len(rest) <= rate_limit:
        return COMPLETED
    beyond = upstream.order.rank(rest[rate_limit].key)
    known = {row.key for row in rest} | {change.row.key for change in upstream.changes(0, version)}
    allowed = [key for key in known if upstream.order.rank(key) < beyond]
    return Progress(Phase.IN_PROGRESS, max(allowed, key=upstream.order.rank))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What never changes while a backfill runs (the upstream only ever grows)."""

    upstream: Upstream
    query: Query
    protocol: Protocol = Protocol()
    planner: Planner = plan_by_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that outlives an attempt. ``latest`` is the upstream's newest version by now."""

    latest: int
    log: BarrierLog[Plan] = field(default_factory=BarrierLog)
    state: State = field(default_factory=State)
    view: View = field(default_factory=View)

    def truth(self, job: Job) -> dict[Key, Output]:
        """Return the rows that I1 asks for after the committed epoch."""
        return true_view(job.upstream, job.query, self.state.version, self.state.progress)


class Step(Enum):
    """What an attempt does next."""

    READ_STATE = auto()
    READ_LOG = auto()
    APPEND_CANDIDATE = auto()
    ADOPT = auto()
    STAGE_CHANGES = auto()
    COMMIT_CHANGES = auto()
    STAGE_SNAPSHOT = auto()
    COMMIT_SNAPSHOT = auto()
    STAGE_STATE = auto()
    COMMIT_STATE = auto()
    STAGE_LOG = auto()
    COMMIT_LOG = auto()
    DONE = auto()
    REFUSED = auto()


POINTS = {
    Step.STAGE_CHANGES: "after_pin",
    Step.COMMIT_CHANGES: "before_changes_commit",
    Step.STAGE_SNAPSHOT: "after_changes_commit",
    Step.COMMIT_SNAPSHOT: "before_snapshot_commit",
    Step.STAGE_STATE: "after_snapshot_commit",
    Step.COMMIT_STATE: "before_state_commit",
    Step.STAGE_LOG: "after_state_commit",
    Step.COMMIT_LOG: "before_log_commit",
}


@dataclass(frozen=True, slots=True)
class Staged:
    """A write computed but not committed: net rows for a merge, or rows for an append."""

    view_version: int
    rows: tuple[tuple[Key, Output | None], ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One task run in the middle of its work: what it knows, and loses when it dies."""

    settings: Barrier
    next: Step = Step.READ_STATE
    state: State | None = None
    plan: Plan | None = None
    staged: Staged | State | LogEntry | None = None

    @property
    def stands_at(self) -> str | None:
        """The named point at which it stands."""
        return POINTS.get(self.next)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.next in {Step.DONE, Step.REFUSED}


def advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """Take one atomic step of an attempt."""
    return _STEPS[attempt.next](job, world, attempt)


def replay(plan: Plan) -> Attempt:
    """Return an attempt that executes a barrier injected long ago."""
    return Attempt(settings=plan.settings, plan=plan, next=Step.STAGE_CHANGES)


# --- inject ---------------------------------------------------------------------------------------


def _read_state(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    return world, replace(attempt, state=world.state, next=Step.READ_LOG)


def _read_log(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    pinned = world.log.uncommitted() if job.protocol.pinned else None
    if pinned is not None:
        return world, replace(attempt, plan=pinned, next=Step.STAGE_CHANGES)
    assert attempt.state is not None
    candidate = _next_plan(job, attempt.state, world.latest, attempt.settings)
    return world, replace(attempt, plan=candidate, next=Step.APPEND_CANDIDATE)


def _append_candidate(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    assert attempt.plan is not None
    return replace(world, log=world.log.appended(attempt.plan)), replace(attempt, next=Step.ADOPT)


def _adopt(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    assert attempt.plan is not None
    plan = world.log.pinned(attempt.plan.epoch) if job.protocol.pinned else attempt.plan
    return world, replace(attempt, plan=plan, next=Step.STAGE_CHANGES)


def _next_plan(job: Job, state: State, latest: int, settings: Barrier) -> Plan:
    new = old = state.progress
    if old != COMPLETED and not settings.paused and settings.rate_limit != 0:
        new = COMPLETED
        if settings.rate_limit is not None:
            new = job.planner(job.upstream, latest, old, settings.rate_limit)
    return Plan(
        epoch=state.epoch + 1,
        after=state.version,
        up_to=latest,
        old=old,
        new=new,
        row_count_before=state.row_count,
        settings=settings,
    )


# --- execute --------------------------------------------------------------------------------------


def _stage_changes(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    if job.protocol.changes_have_txn and world.view.transaction("changes") >= plan.epoch:
        return world, _skip(job, world, attempt, "changes")
    filter_by = plan.old if job.protocol.filter_by == "old" else plan.new
    net = job.protocol.net(job.upstream.changes(plan.after, plan.up_to))
    passed = {key: row for key, row in net.items() if filter_by.covers(key, job.upstream.order)}
    outputs = tuple((key, None if row is None else job.query(row)) for key, row in passed.items())
    staged = Staged(world.view.version, outputs, len(outputs))
    return world, replace(attempt, staged=staged, next=Step.COMMIT_CHANGES)


def _commit_changes(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, staged = _plan(attempt), attempt.staged
    assert isinstance(staged, Staged)
    if job.protocol.changes_have_txn and world.view.transaction("changes") >= plan.epoch:
        return world, _skip(job, world, attempt, "changes")
    if world.view.version != staged.view_version:
        return world, replace(attempt, staged=None, next=Step.STAGE_CHANGES)
    view = world.view.merged(dict(staged.rows)).logged(
        Commit("changes", plan, staged.count), transaction=job.protocol.changes_have_txn
    )
    return replace(world, view=view), replace(attempt, staged=None, next=Step.STAGE_SNAPSHOT)


def _stage_snapshot(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    if job.protocol.snapshot_has_txn and world.view.transaction("snapshot") >= plan.epoch:
        return world, _skip(job, world, attempt, "snapshot")
    rows = _chunk(job, plan)
    outputs = tuple((row.key, output) for row in rows if (output := job.query(row)) is not None)
    staged = Staged(world.view.version, outputs, len(rows))
    return world, replace(attempt, staged=staged, next=Step.COMMIT_SNAPSHOT)


def _commit_snapshot(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, staged = _plan(attempt), attempt.staged
    assert isinstance(staged, Staged)
    if job.protocol.snapshot_has_txn and world.view.transaction("snapshot") >= plan.epoch:
        return world, _skip(job, world, attempt, "snapshot")
    rows = [(key, output) for key, output in staged.rows if output is not None]
    view = world.view.appended(rows).logged(
        Commit("snapshot", plan, staged.count), transaction=job.protocol.snapshot_has_txn
    )
    return replace(world, view=view), replace(attempt, staged=None, next=Step.STAGE_STATE)


def _chunk(job: Job, plan: Plan) -> list[Row]:
    if plan.new == plan.old:
        return []
    version = plan.up_to if job.protocol.chunk_at == "up_to" else plan.after
    order: KeyOrder = job.upstream.order
    rest = job.upstream.rows_after(version, plan.old.position)
    return [row for row in rest if plan.new.covers(row.key, order)]


def _skip(job: Job, world: World, attempt: Attempt, part: Part) -> Attempt:
    after = Step.STAGE_SNAPSHOT if part == "changes" else Step.STAGE_STATE
    plan = _plan(attempt)
    commit = world.view.commit_of(part, plan.epoch)
    believed = commit is not None and (commit.plan == plan or not job.protocol.digest_checked)
    return replace(attempt, staged=None, next=after if believed else Step.REFUSED)


# --- commit ---------------------------------------------------------------------------------------


def _stage_state(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    read = world.view.commit_of("snapshot", plan.epoch)
    assert read is not None
    state = State(epoch=plan.epoch, version=plan.up_to, progress=plan.new, row_count=plan.row_count_before + read.rows)
    return world, replace(attempt, staged=state, next=Step.COMMIT_STATE)


def _commit_state(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    state = attempt.staged
    assert isinstance(state, State)
    if not job.protocol.state_fenced or world.state.epoch < state.epoch:
        world = replace(world, state=state)
    return world, replace(attempt, staged=None, next=Step.STAGE_LOG)


def _stage_log(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan = _plan(attempt)
    snapshot = world.view.commit_of("snapshot", plan.epoch)
    changes = world.view.commit_of("changes", plan.epoch)
    assert snapshot is not None
    assert changes is not None
    entry = LogEntry(plan.epoch, snapshot.rows, changes.rows)
    return world, replace(attempt, staged=entry, next=Step.COMMIT_LOG)


def _commit_log(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    entry = attempt.staged
    assert isinstance(entry, LogEntry)
    return replace(world, log=world.log.committed(entry)), replace(attempt, staged=None, next=Step.DONE)


def _plan(attempt: Attempt) -> Plan:
    assert attempt.plan is not None
    return attempt.plan


_STEPS = {
    Step.READ_STATE: _read_state,
    Step.READ_LOG: _read_log,
    Step.APPEND_CANDIDATE: _append_candidate,
    Step.ADOPT: _adopt,
    Step.STAGE_CHANGES: _stage_changes,
    Step.COMMIT_CHANGES: _commit_changes,
    Step.STAGE_SNAPSHOT: _stage_snapshot,
    Step.COMMIT_SNAPSHOT: _commit_snapshot,
    Step.STAGE_STATE: _stage_state,
    Step.COMMIT_STATE: _commit_state,
    Step.STAGE_LOG: _stage_log,
    Step.COMMIT_LOG: _commit_log,
}
