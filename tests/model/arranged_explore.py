"""
The bounded search of :mod:`tests.model.explore` over task runs that share epochs of the arrangement strategy.

It starts when one epoch has made the arrangement and a second one has read a row in each of two task runs. From
there runs of whole epochs overlap, and with them runs of single parts, which take part in whatever epoch is pinned
when they start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from tests.model.arranged_attempts import Attempt, Step
from tests.model.arranged_job import Job, Protocol, World, by_amount, keys_at_the_end
from tests.model.arranged_runs import ArrangedRun, changed, check_arranged
from tests.model.arrangement import advance
from tests.model.explore import Move, Result, nothing_to_check, search
from tests.model.truth import paid_in_cents
from tests.strategies import Barrier, Insert, KeyColumn, Row, Scenario, Update, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE_EPOCHS = (
    Attempt(settings=Barrier(rate_limit=3)),
    Attempt(settings=Barrier(rate_limit=2), first_part=1),
    Attempt(settings=Barrier(rate_limit=1)),
)
"""Runs that begin in this order; settings change while they overlap."""

SHARED_EPOCHS = (
    Attempt(settings=Barrier(rate_limit=3), only="changes"),
    Attempt(settings=Barrier(), only=0),
    Attempt(settings=Barrier(), only=1),
    Attempt(settings=Barrier(), only=1),
)
"""The changes' run, and those of two parts, of which one is started twice."""

MIXED = (*WHOLE_EPOCHS[:2], Attempt(settings=Barrier(), only=1))
"""Two runs of whole epochs, and one that helps."""

UPSTREAM = Scenario(
    columns=(KeyColumn("id"),),
    # By amount: rows 1 and 2 in vnode 0, rows 3 and 4 in vnode 1, row 5 in vnode 2.
    initial=(
        Row((1,), "open", 0),
        Row((2,), "paid", 3),
        Row((3,), "paid", 1),
        Row((4,), "paid", 4),
        Row((5,), "paid", 2),
    ),
    events=(
        # Row 1 was read and did not pass the filter. It moves to a vnode that is not read, and passes it there.
        Write((Update((1,), Row((1,), "paid", 5)),)),
        # Row 3 leaves the rows that were read, row 5 joins them, and row 0 is new there.
        Write(
            (
                Update((3,), Row((3,), "paid", 0)),
                Update((5,), Row((1,), "paid", 3)),
                Update((1,), Row((5,), "paid", 5)),
                Insert(Row((0,), "paid", 6)),
            )
        ),
    ),
)

_SILENT = {Step.ADOPT, Step.STAGE_ARRANGEMENT, Step.STAGE_CHANGES, Step.STAGE_PART, Step.STAGE_LOG}
_BEFORE_A_PART = {Step.READ_STATE, Step.READ_LOG, Step.AWAIT_CHANGES}


@dataclass(frozen=True, slots=True)
class Node:
    """One state of the search: the world, and the runs started so far, each wherever it stands."""

    world: World
    attempts: tuple[Attempt, ...] = ()


def explore_arranged(
    protocol: Protocol,
    runs: tuple[Attempt, ...] = MIXED,
    *,
    zombie: Literal["before_changes_commit", "before_arrangement_commit"] | None = None,
    max_states: int = 200_000,
) -> Result:
    """
    Search all interleavings of some runs; stop at the first broken invariant or after so many states.

    With ``zombie`` the first run has pinned the third epoch and stands at that point when the search starts.
    """
    job, start = _start(protocol, zombie)
    return search(start, lambda node: _moves(job, node, runs), max_states=max_states)


def _start(protocol: Protocol, zombie: str | None) -> tuple[Job, Node]:
    run = ArrangedRun(replace(UPSTREAM, events=()), paid_in_cents, vnode_of=by_amount, known_keys=keys_at_the_end)
    run.rescale(2)
    run.run(Barrier())
    run.run(Barrier(rate_limit=2))
    # So far it went right; what follows is up to the protocol.
    run.job = replace(run.job, protocol=protocol)
    first, *later = (event for event in UPSTREAM.events if isinstance(event, Write))
    if zombie:
        run.write(first)
        run.crash(zombie, Barrier(rate_limit=3))
        world = run.world
    else:
        world = run.world
        run.job.upstream.write(first)
    for write in later:
        run.job.upstream.write(write)
    return run.job, Node(world, tuple(_forgetful(attempt) for attempt in run.attempts))


def _moves(job: Job, node: Node, runs: tuple[Attempt, ...]) -> Iterator[Move[Node]]:
    if node.world.latest < job.upstream.latest:
        latest = node.world.latest + 1
        world = changed(node.world, latest=latest)
        yield f"write version {latest}", Node(world, node.attempts), nothing_to_check
    started = node.attempts
    if len(started) < len(runs):
        started = (*started, runs[len(started)])
    for i, attempt in enumerate(started):
        if attempt.ended or not _may_begin(node.world, attempt):
            continue
        world, after = _advance(job, node.world, attempt)
        moved = (*started[:i], _forgetful(after), *started[i + 1 :])
        # One that has not moved has not started: the next one must not start before it.
        moved = moved if moved[-1].next is not Step.READ_STATE else moved[:-1]
        check = partial(check_arranged, job, node.world, world, after)
        yield f"{i}: {attempt.next.name.lower()}", Node(world, moved), check


def _may_begin(world: World, attempt: Attempt) -> bool:
    """Tell whether there is anything to do for a run, which is started for a part once the changes are reported."""
    if not isinstance(attempt.only, int) or attempt.next is not Step.READ_STATE:
        return True
    pinned = world.log.uncommitted()
    return pinned is not None and attempt.only < len(pinned.parts) and None in world.reported(pinned.epoch)


def _advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    world, attempt = advance(job, world, attempt)
    while attempt.next in _SILENT or (isinstance(attempt.only, int) and attempt.next in _BEFORE_A_PART):
        world, attempt = advance(job, world, attempt)
    return world, attempt


def _forgetful(attempt: Attempt) -> Attempt:
    if attempt.ended:
        return Attempt(settings=Barrier(), next=attempt.next)
    if attempt.plan is None:
        return attempt
    return replace(attempt, settings=attempt.plan.settings, first_part=0, state=None)
