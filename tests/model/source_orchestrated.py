"""
Our order of operations over splits, as a sequence of atomic steps.

1. **Inject.** Read the state and the log. If an epoch is pinned and not committed, take it; else pin the next one: the
   splits' ends, and of each vnode how far it is read then. A vnode whose rest fits its share of the rate limit is
   completed. Splits of one vnode are read one after the other.
2. **Changes.** Rows that were appended in the window, where the *old* position has read everything before: in splits of
   completed vnodes, and in splits before the position's own.
3. **Snapshot.** The places between the old and the new position, up to the pinned ends.
4. **State**, then the **log**'s entry.

Each of the two writes of the view happens once per epoch, under a transaction id. :class:`Protocol` can weaken one rule
at a time; the tests prove that each weakened protocol breaks an invariant.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from tests.model.source_topic import Place, Rows, Topic, check_rows
from tests.model.truth import InvariantError

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPLETED = "completed"
Position = Place | Literal["completed"] | None
"""How far a vnode is read: not at all, up to and including a place, or wholly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is ours."""

    changes_filtered_by: Literal["the old position", "the new position"] = "the old position"
    chunk_read_at: Literal["to", "from"] = "to"
    position_is_read: bool = True
    completed_at: Literal["the window's end", "the end at creation"] = "the window's end"
    complete_with: Literal["the last place", "a record at the last place"] = "the last place"
    added_splits_begin: Literal["at their first place", "at their end"] = "at their first place"
    earlier_splits_are_read: bool = True
    ends_are_pinned: bool = True
    writes_have_ids: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What an epoch does, as its barrier pins it."""

    epoch: int
    after: tuple[int, ...]
    up_to: tuple[int, ...]
    old: tuple[Position, ...]
    new: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The committed state."""

    epoch: int
    ends: tuple[int, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All tables; ``written`` is the epoch of each of the view's transaction ids, ``plans`` the log's barriers."""

    topic: Topic
    created: tuple[int, ...]
    state: State
    plans: tuple[Plan, ...] = ()
    committed: int = 0
    view: Rows = field(default_factory=Counter)
    written: Mapping[str, int] = field(default_factory=dict)


class Step(Enum):
    """What an attempt does next."""

    READ = auto()
    PIN = auto()
    CHANGES = auto()
    SNAPSHOT = auto()
    STATE = auto()
    LOG = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task run in the middle of its work; a rate limit of 0 reads no snapshot."""

    limit: int
    next: Step = Step.READ
    plan: Plan | None = None


def created(topic: Topic, vnodes: int) -> World:
    """Return the tables of a job that was just created."""
    return World(topic=topic, created=topic.ends, state=State(0, (0,) * len(topic.splits), (None,) * vnodes))


def advance(protocol: Protocol, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """Take one atomic step of an attempt."""
    if attempt.next is Step.READ:
        return world, _injected(protocol, world, attempt)
    plan = attempt.plan
    assert plan is not None
    if attempt.next is Step.PIN:
        # The first one in the log's order wins, and others adopt its plan.
        plans = world.plans if len(world.plans) >= plan.epoch else (*world.plans, plan)
        return replace(world, plans=plans), replace(attempt, plan=plans[plan.epoch - 1], next=Step.CHANGES)
    if not protocol.ends_are_pinned:
        plan = replace(plan, up_to=world.topic.ends)
    match attempt.next:
        case Step.CHANGES:
            world, following = _write(protocol, world, plan, "changes"), Step.SNAPSHOT
        case Step.SNAPSHOT:
            world, following = _write(protocol, world, plan, "snapshot"), Step.STATE
        case Step.STATE:
            world, following = _commit_state(world, plan), Step.LOG
        case _:
            world, following = _commit_log(world, plan), Step.DONE
    return world, replace(attempt, next=following)


def _injected(protocol: Protocol, world: World, attempt: Attempt) -> Attempt:
    if len(world.plans) > world.committed:
        return replace(attempt, plan=world.plans[-1], next=Step.CHANGES)
    planned = _planned(protocol, world, attempt.limit)
    return replace(attempt, plan=planned, next=Step.PIN if planned else Step.DONE)


def read_of(positions: tuple[Position, ...], ends: tuple[int, ...]) -> dict[int, int]:
    """Return for each split the offset up to which a view has its records."""
    return {split: _read(positions[split % len(positions)], split, end) for split, end in enumerate(ends)}


def _read(position: Position, split: int, end: int) -> int:
    if position is None:
        return 0
    if position == COMPLETED or split < position[0]:
        return end
    return position[1] + 1 if split == position[0] else 0


def _planned(protocol: Protocol, world: World, limit: int) -> Plan | None:
    state, up_to = world.state, world.topic.ends
    new, left = [], limit
    for vnode, position in enumerate(state.positions):
        rest = [
            (split, offset)
            for split, end in enumerate(up_to)
            if split % len(state.positions) == vnode and position != COMPLETED
            for offset in range(_read(position, split, end), _last(protocol, world, split, end))
        ]
        share = min(len(rest), -(-left // (len(state.positions) - vnode)))
        left -= share
        if position == COMPLETED or (limit and share == len(rest) and _may_complete(protocol, world, vnode)):
            new.append(COMPLETED)
        else:
            new.append(rest[share - 1] if share else position)
    if tuple(new) == state.positions and up_to == state.ends:
        return None
    return Plan(state.epoch + 1, state.ends, up_to, state.positions, tuple(new))


def _last(protocol: Protocol, world: World, split: int, end: int) -> int:
    """Return the offset up to which a backfill goes."""
    if protocol.completed_at == "the window's end":
        return end
    return min(world.created[split], end) if split < len(world.created) else 0


def _may_complete(protocol: Protocol, world: World, vnode: int) -> bool:
    if protocol.complete_with == "the last place":
        return True
    splits = [split for split in range(len(world.topic.splits)) if split % len(world.state.positions) == vnode]
    return all(world.topic.records(split, end - 1, end) for split in splits if (end := world.topic.ends[split]))


def _write(protocol: Protocol, world: World, plan: Plan, part: str) -> World:
    if protocol.writes_have_ids and world.written.get(part, 0) >= plan.epoch:
        return world
    rows = _changes(protocol, world, plan) if part == "changes" else _chunk(protocol, world, plan)
    return replace(world, view=world.view + Counter(rows), written={**world.written, part: plan.epoch})


def _changes(protocol: Protocol, world: World, plan: Plan) -> list[Place]:
    position_of = plan.old if protocol.changes_filtered_by == "the old position" else plan.new
    found = []
    for split, end in enumerate(plan.up_to):
        begin = plan.after[split] if split < len(plan.after) else 0
        if split >= len(plan.after) and protocol.added_splits_begin == "at their end":
            begin = end
        position = position_of[split % len(position_of)]
        read = _read(position, split, end)
        if position not in (None, COMPLETED) and not protocol.earlier_splits_are_read and split < position[0]:
            read = begin
        found += world.topic.records(split, begin, max(begin, read))
    return found


def _chunk(protocol: Protocol, world: World, plan: Plan) -> list[Place]:
    found = []
    for split, end in enumerate(plan.up_to):
        old, new = (positions[split % len(plan.old)] for positions in (plan.old, plan.new))
        if old == COMPLETED:
            continue
        # What was appended to a split before the position's own is a change.
        begin, last = _read(old, split, end), _read(new, split, end)
        if old is not None and split == old[0] and not protocol.position_is_read:
            begin -= 1
        if protocol.chunk_read_at == "from":
            last = min(last, plan.after[split] if split < len(plan.after) else 0)
        if protocol.completed_at != "the window's end":
            last = min(last, _last(protocol, world, split, end))
        found += world.topic.records(split, begin, max(begin, last))
    return found


def _commit_state(world: World, plan: Plan) -> World:
    if world.state.epoch >= plan.epoch:
        return world
    for vnode, (old, new) in enumerate(zip(world.state.positions, plan.new, strict=True)):
        if old != new and (old == COMPLETED or (new is None) or (old is not None and new != COMPLETED and new < old)):
            raise InvariantError(f"I3 monotonic: vnode {vnode} went back from {old} to {new}")
    return replace(world, state=State(plan.epoch, plan.up_to, plan.new))


def _commit_log(world: World, plan: Plan) -> World:
    if world.committed >= plan.epoch:
        return world
    check_rows(world.view, world.topic, read_of(plan.new, plan.up_to))
    return replace(world, committed=plan.epoch)
