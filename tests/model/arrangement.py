"""
Our order of operations with a position of its own for each vnode, and runs that share an epoch.

The vnode of a row comes from its distribution key, which may be any column, so that an update can move a row from one
vnode to another under the same key. The scan goes by (vnode, key), over the *arrangement*: the upstream as of the
version at which the job was created, and the changes since. One epoch is a sequence of atomic steps that can stop,
repeat and overlap anywhere:

1. **Inject**, as in :mod:`tests.model.orchestrated`. Pinned are the version range ``(after, up_to]``, what was read
   before the epoch, and for each parallel run the ranges that it reads: the rests of its vnodes in progress, then
   those not started. If whoever created the job died before it made the arrangement's base, the first epoch makes it,
   and reads nothing.
2. **Arrange.** Net changes per (vnode, key) of what was not read *before* the epoch are appended to the arrangement,
   with the epoch as their stamp, also while the job is paused.
3. **Changes.** Net changes per (vnode, key) of what was read before the epoch, then net per key with the upsert
   winning, are merged into the view by key. This is **reported**.
4. **Parts**, in any order or side by side. Each run appends its chunk: rows of the base in its ranges that did not
   change since, and the newest of those that did, as of the epoch's stamp. Each part is reported.
5. Once the changes and all parts are reported, whoever sees it commits the **state**, derived from plan and reports
   alone, and then the **barrier log**'s entry.

Every write carries a transaction of its own (part, epoch). That holds for a merge that finds nothing to change, too: if
it left no commit, a repeated one could do harm. It may delete a key that has come with a chunk meanwhile, for the row
that was deleted in a vnode that is read, and did not pass the query's filter, may have moved to a vnode that was being
read in that very epoch, and pass it there.

As in the neighbour, values are immutable, :func:`advance` is a pure function, and :class:`Protocol` can weaken one rule
at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import cycle
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from tests.model.arranged_tables import (
    ArrangedPlan,
    Arrangement,
    Counts,
    Distribution,
    Place,
    Range,
    Report,
    VnodeState,
)
from tests.model.tables import BarrierLog, Commit, LogEntry, View
from tests.model.truth import COMPLETED, NOT_STARTED, Output, Phase, Progress, Query
from tests.model.upstream import Change, Upstream, as_stream

if TYPE_CHECKING:
    from tests.strategies import Barrier, Key, Row

Net = dict[Place, "Row | None"]

KnownKeys = Callable[["Job", "World", Range], "list[Key]"]
"""The keys that an injector believes to be in a range, in order; it cuts chunks between them."""


def by_status(row: Row) -> int:
    """Distribute by a column that the usual query filters by; three vnodes."""
    return ("open", "paid", None).index(row.status)


def by_amount(row: Row) -> int:
    """Distribute by a column that changes often; three vnodes, of which the nulls' is one of the others', too."""
    return 0 if row.amount is None else row.amount % 3


def by_key(row: Row) -> int:
    """Distribute by the key, so that no row ever moves; four vnodes."""
    return hash_of_key(row.key) % 4


def hash_of_key(key: Key) -> int:
    """Return the same number for a key in every process."""
    return crc32(repr(key).encode())


VNODES: dict[Distribution, int] = {by_status: 3, by_amount: 3, by_key: 4}


def net_by_place(changes: Iterable[Change], vnode_of: Distribution) -> Net:
    """
    Return what the changes come to at each (vnode, key) that they touch.

    The latest version wins, and inside one version an insert or postimage beats a delete or preimage.
    """
    return {
        (vnode_of(change.row), change.row.key): change.row if change.writes else None for change in as_stream(changes)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is what keeps an invariant, or saves work where two are right."""

    pinned: bool = True
    state_fenced: bool = True
    arrangement_has_txn: bool = True
    changes_have_txn: bool = True
    empty_merge_has_txn: bool = True
    parts_have_txn: Literal["each", "shared", "none"] = "each"
    all_parts_awaited: bool = True
    net: Callable[[Iterable[Change], Distribution], Net] = net_by_place
    filter_vnode: Callable[[Key], int] | None = None
    filter_by: Literal["old", "new", "last_row"] = "old"
    chunk_at: Literal["up_to", "after"] = "up_to"
    changes_first: bool = True
    arranged: Literal["unread", "all", "unless_paused"] = "unread"
    stamps_bounded: bool = True
    goes_on_with: Literal["unfinished", "in_progress"] = "unfinished"
    completed_rescanned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What never changes while a backfill runs (the upstream only ever grows)."""

    upstream: Upstream
    query: Query
    vnode_of: Distribution = by_amount
    protocol: Protocol = Protocol()
    known_keys: KnownKeys

    @property
    def vnode_count(self) -> int:
        """How many vnodes the distribution has."""
        return VNODES[self.vnode_of]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that outlives a run. ``latest`` is the upstream's newest version by now."""

    latest: int
    state: VnodeState
    parallelism: int = 1
    log: BarrierLog[ArrangedPlan] = field(default_factory=BarrierLog)
    reports: frozenset[Report] = frozenset()
    arrangement: Arrangement = field(default_factory=Arrangement)
    view: View = field(default_factory=View)

    def reported(self, epoch: int) -> dict[int | None, Counts]:
        """Return what runs have reported of an epoch, by part."""
        return {report.part: report.rows for report in self.reports if report.epoch == epoch}

    def truth(self, job: Job) -> dict[Key, Output]:
        """Return the rows that I1 asks for after the committed epoch."""
        result = {}
        for key, row in job.upstream.as_of(self.state.version).items():
            output = job.query(row)
            if output is not None and self.state.vnodes[job.vnode_of(row)].covers(key, job.upstream.order):
                result[key] = output
        return result


def keys_as_arranged(job: Job, world: World, covered: Range) -> list[Key]:
    """Know what the arrangement shows at the time: the rows before the epoch's own changes."""
    return [key for (_, key), _ in world.arrangement.rows([covered], job.upstream.order, up_to=None)]


def keys_at_the_end(job: Job, world: World, covered: Range) -> list[Key]:
    """Know the rows as the chunk will find them."""
    rows = job.upstream.as_of(world.latest).values()
    return [row.key for row in rows if covered.covers((job.vnode_of(row), row.key), job.upstream.order)]


class Step(Enum):
    """What a run does next."""

    READ_STATE = auto()
    READ_LOG = auto()
    APPEND_CANDIDATE = auto()
    ADOPT = auto()
    MAKE_BASE = auto()
    STAGE_ARRANGEMENT = auto()
    COMMIT_ARRANGEMENT = auto()
    STAGE_CHANGES = auto()
    COMMIT_CHANGES = auto()
    REPORT_CHANGES = auto()
    AWAIT_CHANGES = auto()
    STAGE_PART = auto()
    COMMIT_PART = auto()
    REPORT_PART = auto()
    STAGE_STATE = auto()
    COMMIT_STATE = auto()
    STAGE_LOG = auto()
    COMMIT_LOG = auto()
    DONE = auto()
    REFUSED = auto()


POINTS = {
    Step.MAKE_BASE: "after_pin",
    Step.STAGE_ARRANGEMENT: "after_pin",
    Step.COMMIT_ARRANGEMENT: "before_arrangement_commit",
    Step.STAGE_CHANGES: "after_arrangement_commit",
    Step.COMMIT_CHANGES: "before_changes_commit",
    Step.REPORT_CHANGES: "after_changes_commit",
    Step.COMMIT_PART: "before_snapshot_commit",
    Step.REPORT_PART: "after_snapshot_commit",
    Step.STAGE_STATE: "after_report",
    Step.COMMIT_STATE: "before_state_commit",
    Step.STAGE_LOG: "after_state_commit",
    Step.COMMIT_LOG: "before_log_commit",
}
"""Where a run can be told to die; the points of a write are passed only if there is something to write."""

ARRANGED_POINTS = tuple(dict.fromkeys(POINTS.values()))
"""The points in the order in which an epoch passes them."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A write computed but not committed: net rows for a merge, or rows for an append; and how many count."""

    view_version: int
    rows: tuple[tuple[Key, Output | None], ...]
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """
    One task run in the middle of its work: what it knows by itself, and would take to its grave.

    It executes a whole epoch, the parts one after the other, or ``only`` its changes, or one part. ``first_part``
    tells which part a run of the whole epoch begins with.
    """

    settings: Barrier
    only: Literal["changes"] | int | None = None
    first_part: int = 0
    next: Step = Step.READ_STATE
    state: VnodeState | None = None
    plan: ArrangedPlan | None = None
    parts_left: tuple[int, ...] = ()
    net: tuple[tuple[Place, Row | None], ...] | None = None
    staged: Staged | VnodeState | LogEntry | None = None

    @property
    def stands_at(self) -> str | None:
        """The named point at which it stands."""
        return POINTS.get(self.next)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.next in {Step.DONE, Step.REFUSED}


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
        # Nobody starts a part's run but for a barrier.
        return world, replace(attempt, next=Step.DONE)
    assert attempt.state is not None
    candidate = _next_plan(job, world, attempt.state, attempt.settings)
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


def _next_plan(job: Job, world: World, state: VnodeState, settings: Barrier) -> ArrangedPlan:
    arranges = world.arrangement.base is None
    held = settings.paused or settings.rate_limit == 0 or state.completed or arranges
    owned = _owned(state, world)
    return ArrangedPlan(
        epoch=state.epoch + 1,
        after=state.version,
        up_to=world.latest,
        before=state.vnodes,
        rows_before=state.row_counts,
        parts=() if held else _plan_parts(job, world, state, owned, settings.rate_limit),
        owned=owned,
        settings=settings,
        parallelism=world.parallelism,
        arranges=arranges,
    )


def _owned(state: VnodeState, world: World) -> tuple[tuple[int, int], ...]:
    """Return each run's vnodes: as before, unless runs are rescaled or idle while others have vnodes to spare."""
    unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if progress != COMPLETED]
    runs = min(world.parallelism, len(unfinished))
    before = next((plan for plan in reversed(world.log.candidates) if plan.epoch == state.epoch), None)
    if before is not None and before.parallelism == world.parallelism:
        working = sum(any(first <= vnode <= last for vnode in unfinished) for first, last in before.owned)
        if working == runs:
            return before.owned
    firsts = [unfinished[len(unfinished) * run // runs] for run in range(runs)]
    return tuple(zip(firsts, [*(first - 1 for first in firsts[1:]), len(state.vnodes) - 1], strict=False))


def _plan_parts(
    job: Job, world: World, state: VnodeState, owned: tuple[tuple[int, int], ...], rate_limit: int | None
) -> tuple[tuple[Range, ...], ...]:
    in_progress = any(progress.phase is Phase.IN_PROGRESS for progress in state.vnodes)
    begun = any(progress != NOT_STARTED for progress in state.vnodes)
    if job.protocol.goes_on_with == "in_progress" and begun and not in_progress:
        return ()
    unread = [_unread(job, state, first, last) for first, last in owned]
    known = [[(covered, job.known_keys(job, world, covered)) for covered in ranges] for ranges in unread]
    shares = _shares(rate_limit, [sum(len(keys) for _, keys in run) for run in known])
    parts = (tuple(_cut(run, share)) for run, share in zip(known, shares, strict=True))
    return tuple(part for part in parts if part)


def _unread(job: Job, state: VnodeState, first: int, last: int) -> list[Range]:
    """Return the rests of vnodes in progress, then those not started."""
    mine = [(vnode, state.vnodes[vnode]) for vnode in range(first, last + 1)]
    rests = [Range(vnode, progress.position) for vnode, progress in mine if progress.phase is Phase.IN_PROGRESS]
    untouched = [Range(vnode) for vnode, progress in mine if progress == NOT_STARTED]
    again = [Range(vnode) for vnode, progress in mine if progress == COMPLETED and job.protocol.completed_rescanned]
    return rests + untouched + again


def _shares(rate_limit: int | None, wanted: list[int]) -> list[int]:
    """Share the rate limit among runs fairly; what one does not need, the others get."""
    if rate_limit is None or rate_limit >= sum(wanted):
        return wanted
    shares = [0] * len(wanted)
    for run in cycle(range(len(wanted))):
        if sum(shares) == rate_limit:
            break
        shares[run] += shares[run] < wanted[run]
    return shares


def _cut(known: list[tuple[Range, list[Key]]], share: int) -> Iterable[Range]:
    """Yield the ranges with so many rows; a vnode without any rest is read along, and completes."""
    for covered, keys in known:
        if len(keys) <= share:
            yield covered
            share -= len(keys)
            continue
        if share:
            yield replace(covered, up_to=keys[share - 1])
        return


# --- changes --------------------------------------------------------------------------------------


def _make_base(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    made = world.arrangement.made(base_of(job))
    return replace(world, arrangement=made), replace(attempt, next=Step.STAGE_ARRANGEMENT)


def base_of(job: Job) -> list[tuple[Place, Row]]:
    """Return the upstream's rows as of the version at which the job was created."""
    return [((job.vnode_of(row), row.key), row) for row in job.upstream.as_of(0).values()]


def _stage_arrangement(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, rules = _plan(attempt), job.protocol
    net = rules.net(job.upstream.changes(plan.after, plan.up_to), job.vnode_of)
    order = job.upstream.order
    if rules.arranged != "all":
        net = {place: row for place, row in net.items() if not plan.before[place[0]].covers(place[1], order)}
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


def chunk(job: Job, world: World, plan: ArrangedPlan, part: int) -> list[tuple[Place, Row]]:
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
