"""
A bounded search over all interleavings of overlapping attempts: every schedule, not a random one.

The search starts when the first epoch is committed, with upstream versions still to be revealed at any
moment, and lets up to three attempts overlap step by step. A crash needs no extra move: an attempt that
never moves again is dead, and one that moves again after others have gone on is a zombie. The invariants are
checked after every move, breadth first: what is found has the shortest trace.

States are immutable values, so that equal ones are visited once. Steps whose outcome no other attempt can
change (adopting what the log holds already, computing a write whose commit looks at the view again) are not
moves of their own but happen at once with the step before, and an attempt forgets what it will not look at
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tests.model.orchestrated import Attempt, Job, Protocol, Step, World, advance
from tests.model.runs import OrchestratedRun, check_world
from tests.model.truth import InvariantError, paid_in_cents
from tests.strategies import Barrier, Delete, Insert, KeyColumn, Row, Scenario, Update, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

N = TypeVar("N", bound=Hashable)

Move = tuple[str, N, Callable[[], None]]
"""A move, its result, and a check that raises if it breaks an invariant."""

ONE_ROW = Barrier(rate_limit=1)
SETTINGS = (ONE_ROW, Barrier(rate_limit=2), ONE_ROW)
"""What each attempt finds in the job's settings: they change while the attempts overlap."""

UPSTREAM = Scenario(
    columns=(KeyColumn("id"),),
    initial=tuple(Row((i,), "paid", i) for i in (1, 3, 5)),
    events=(
        # Before, at and after the position 1 of the first epoch: a changed row, a new one, a re-keyed one.
        Write(
            (
                Update((1,), Row((1,), "paid", 10)),
                Insert(Row((0,), "paid", 0)),
                Update((3,), Row((4,), "paid", 3)),
            )
        ),
        Write((Update((1,), Row((1,), "paid", 20)), Delete((0,)), Insert(Row((2,), "paid", 2)))),
    ),
)


_SILENT = {Step.ADOPT, Step.STAGE_CHANGES, Step.STAGE_SNAPSHOT, Step.STAGE_STATE, Step.STAGE_LOG}


@dataclass(frozen=True, slots=True)
class Node:
    """One state of the search: the world, and the attempts started so far, each wherever it stands."""

    world: World
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """
    How many states were seen, whether those were all, and the shortest way to a broken invariant if there is
    one.
    """

    states: int
    exhausted: bool
    error: str | None = None
    trace: tuple[str, ...] = ()


def explore(
    protocol: Protocol,
    *,
    attempts: int = 3,
    zombie: bool = False,
    max_states: int = 200_000,
    upstream: Scenario = UPSTREAM,
    settings: tuple[Barrier, ...] = SETTINGS,
) -> Result:
    """
    Search all interleavings; stop at the first broken invariant or after so many states.

    With ``zombie`` the first of the attempts has pinned the second epoch and stands before its first commit
    when the search starts, which brings deeper futures within reach.

    ``upstream`` has writes only; ``settings`` are what each attempt finds.
    """
    job, start = _start(protocol, upstream, zombie=zombie)
    return search(start, lambda node: _moves(job, node, settings[:attempts]), max_states=max_states)


def search(start: N, moves: Callable[[N], Iterable[Move[N]]], *, max_states: int) -> Result:
    """Search all that moves lead to, breadth first; stop at the first broken invariant or after so many states."""
    # Each node with the move that led to it, as a chain back to the start.
    parents: dict[N, tuple[N, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for move, successor, check in moves(node):
            try:
                check()
            except InvariantError as error:
                return Result(len(parents), False, str(error), (*_trace(parents, node), move))
            known = len(parents)
            parents.setdefault(successor, (node, move))
            if len(parents) > known:
                queue.append(successor)
            if known == max_states:
                return Result(known, exhausted=False)
    return Result(len(parents), exhausted=True)


def nothing_to_check() -> None:
    """Check a move that can break nothing."""


def _start(protocol: Protocol, upstream: Scenario, *, zombie: bool) -> tuple[Job, Node]:
    run = OrchestratedRun(replace(upstream, events=()), paid_in_cents, protocol)
    run.run(ONE_ROW)
    world = run.world
    first, *later = (event for event in upstream.events if isinstance(event, Write))
    run.write(first)
    if zombie:
        run.crash("before_changes_commit", ONE_ROW)
        world = run.world
    for write in later:
        run.job.upstream.write(write)
    return run.job, Node(world, tuple(run.attempts))


def _moves(job: Job, node: Node, settings: tuple[Barrier, ...]) -> Iterator[Move[Node]]:
    if node.world.latest < job.upstream.latest:
        latest = node.world.latest + 1
        yield f"write version {latest}", replace(node, world=replace(node.world, latest=latest)), nothing_to_check
    started = node.attempts
    if len(started) < len(settings):
        started = (*started, Attempt(settings=settings[len(started)]))
    for i, attempt in enumerate(started):
        if not attempt.ended:
            world, after = _advance(job, node.world, attempt)
            moved = (*started[:i], _forgetful(after), *started[i + 1 :])
            # One that has not moved has not started: the next one must not start before it.
            moved = moved if moved[-1].next is not Step.READ_STATE else moved[:-1]
            check = partial(check_world, job, node.world, world, after)
            yield f"{i}: {attempt.next.name.lower()}", Node(world, moved), check


def _advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    world, attempt = advance(job, world, attempt)
    while attempt.next in _SILENT:
        world, attempt = advance(job, world, attempt)
    return world, attempt


def _forgetful(attempt: Attempt) -> Attempt:
    if attempt.ended:
        return Attempt(settings=ONE_ROW, next=attempt.next)
    return attempt if attempt.plan is None else replace(attempt, settings=attempt.plan.settings, state=None)


def _trace(parents: dict[N, tuple[N, str] | None], node: N) -> tuple[str, ...]:
    moves = []
    while (step := parents[node]) is not None:
        node, move = step
        moves.append(move)
    return tuple(reversed(moves))
