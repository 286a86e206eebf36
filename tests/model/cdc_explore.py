"""
The bounded search of :mod:`tests.model.explore` over attempts of a cdc job.

It starts when the first epoch has read a row ahead. From there two versions are written at any moment, and seen at any
later one, while attempts overlap step by step, and while a task of a reading is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tests.model.cdc_attempts import Attempt, Step
from tests.model.cdc_job import Job, Protocol, World
from tests.model.cdc_orchestrated import advance
from tests.model.cdc_reading import read_again
from tests.model.cdc_runs import History, OrchestratedCdcRun, Writer, check_world
from tests.model.explore import Move, Result, nothing_to_check, search
from tests.strategies import Barrier, Delete, Insert, KeyColumn, Row, Update, Write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.cdc_database import Database

ONE_ROW = Barrier(rate_limit=1)

HISTORY = History(
    columns=(KeyColumn("id"),),
    initial=tuple(Row((i,), "paid", i) for i in (1, 3, 5)),
    writes=(
        # Before, at and after what was read ahead: a new row, a changed one, a re-keyed one.
        Write((Insert(Row((0,), "paid", 0)), Update((1,), Row((1,), "paid", 10)), Update((3,), Row((4,), "paid", 3)))),
        Write((Update((1,), Row((1,), "paid", 20)), Delete((0,)), Insert(Row((2,), "paid", 2)))),
    ),
)

APART = History(
    columns=(KeyColumn("id"),),
    initial=tuple(Row((i,), "paid", i) for i in (1, 3, 5)),
    # Two transactions that do not wait for each other.
    writes=(Write((Update((3,), Row((3,), "paid", 30)),)), Write((Update((5,), Row((5,), "paid", 50)),))),
)

ONE_WRITE = replace(HISTORY, writes=HISTORY.writes[:1])

OVERLAPPING = (Attempt(settings=ONE_ROW), Attempt(settings=Barrier(rate_limit=2)))
"""Two attempts of the same epoch, or of one and the next; the settings change between them."""

IN_SEQUENCE = (
    Attempt(settings=ONE_ROW),
    Attempt(settings=ONE_ROW),
    Attempt(settings=Barrier(), back=2),
    Attempt(settings=Barrier()),
)
"""Each begins when the one before has ended; one has a window that ends in the past."""

_SILENT = {Step.READ_LOG, Step.PLAN, Step.FIND_OFFSET}


@dataclass(frozen=True, slots=True)
class Node:
    """One state of the search: the world, and the attempts started so far, each wherever it stands."""

    world: World
    attempts: tuple[Attempt, ...] = ()


def explore_cdc(
    protocol: Protocol,
    attempts: tuple[Attempt, ...] = OVERLAPPING,
    *,
    history: History = HISTORY,
    zombie: str | None = None,
    max_states: int = 500_000,
) -> Result:
    """
    Search all interleavings; stop at the first broken invariant or after so many states.

    ``zombie`` is a point of the second epoch at which an attempt stands when the search starts. It may go on at any
    time.
    """
    run = OrchestratedCdcRun(history, protocol=protocol)
    run.run(ONE_ROW)
    standing = () if zombie is None else (_forgetful(run.drive(Attempt(settings=ONE_ROW), to=zombie)),)
    return search(
        Node(run.world, standing),
        lambda node: _moves(run.job, run.writer, node, (*standing, *attempts), zombies=len(standing)),
        max_states=max_states,
    )


def _moves(
    job: Job, writer: Writer, node: Node, attempts: tuple[Attempt, ...], *, zombies: int
) -> Iterator[Move[Node]]:
    for move, database in _writes(writer, node.world.database):
        yield move, replace(node, world=replace(node.world, database=database)), nothing_to_check
    started = node.attempts
    overlap = attempts[zombies:] == OVERLAPPING
    may_start = overlap or all(attempt.ended for attempt in started[zombies:])
    if may_start and len(started) < len(attempts):
        started = (*started, attempts[len(started)])
    for i, attempt in enumerate(started):
        if attempt.ended:
            continue
        world, after = _advance(job, node.world, attempt)
        check = partial(check_world, job, node.world, world, after)
        yield f"{i}: {attempt.next.name.lower()}", Node(world, _with(started, i, _forgetful(after))), check
        if attempt.reading is not None and attempt.reading.rows:
            again = read_again(job, node.world, attempt, 0)
            yield f"{i}: read again", Node(node.world, _with(started, i, again)), nothing_to_check


def _writes(writer: Writer, database: Database) -> Iterator[tuple[str, Database]]:
    for seen in (True, False):
        written = writer.write(database, seen=seen)
        if written != database:
            yield f"write version {written.log[-1]}{'' if seen else ', unseen'}", written
    for version in sorted(database.unseen):
        yield f"show version {version}", database.shown(version)


def _with(started: tuple[Attempt, ...], number: int, attempt: Attempt) -> tuple[Attempt, ...]:
    moved = (*started[:number], attempt, *started[number + 1 :])
    # One that has not moved has not started: the next one must not start before it.
    return moved if moved[-1].next is not Step.READ_STATE else moved[:-1]


def _advance(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    world, attempt = advance(job, world, attempt)
    while attempt.next in _SILENT:
        world, attempt = advance(job, world, attempt)
    return world, attempt


def _forgetful(attempt: Attempt) -> Attempt:
    if attempt.ended:
        return Attempt(settings=ONE_ROW, next=attempt.next)
    return attempt if attempt.plan is None else replace(attempt, settings=attempt.plan.settings, back=0, state=None)
