"""
Every schedule of two attempts of one epoch, of the epoch after it, and of a compaction beside them.

An attempt is a generator, which cannot be copied: so each schedule is played from the start. An attempt that goes on
last was a zombie, and one that has no step left was never needed; so a crash needs no move of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

from tests.model.explore import Result
from tests.model.groups_attempt import Attempt, attempt
from tests.model.groups_barriers import Barriers
from tests.model.groups_checks import check_truth
from tests.model.groups_job import Job, Protocol, Strategy
from tests.model.groups_queries import GroupQuery
from tests.model.groups_rows import a_history, sales
from tests.model.groups_scan import READ, Barrier, Position
from tests.model.truth import InvariantError
from tests.model.upstream import Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where the search begins: a view over a random upstream, in the middle of its backfill or finished."""

    seed: int
    query: GroupQuery
    strategy: Strategy
    is_finished: bool
    with_next_epoch: bool = False
    with_compaction: bool = False
    protocol: Protocol = field(default_factory=Protocol)

    def job(self) -> Job:
        """Return the view before its first epoch."""
        return Job(_upstream(self.seed), self.query, self.strategy, 0, Protocol())

    def reached(self) -> tuple[Job, Barriers, Barrier]:
        """Run the epochs before, without a fault, and pin the one that the attempts share."""
        # What the schedules are about comes later: so far everything went right.
        job = self.job()
        given = Barriers(Random(self.seed), job)
        while True:
            barrier = given.next()
            is_there = barrier.is_steady if self.is_finished else _is_in_the_middle(barrier.before)
            if is_there and barrier.end > barrier.start:
                job.protocol = self.protocol
                # As many commits as an epoch may have, and one part, so that the search ends.
                return job, given, barrier if self.is_finished else replace(barrier, parts=1, commits="removal apart")
            for _ in attempt(job, barrier, range(barrier.parts)):
                pass


@cache
def _upstream(seed: int) -> Upstream:
    # So many versions that there are changes left once the view is finished.
    return a_history(Random(seed), versions=40)


def _is_in_the_middle(positions: tuple[Position, ...]) -> bool:
    return any(position.spot is not None for position in positions) and not all(at == READ for at in positions)


def explore_schedules(start: Start, *, most: int = 200_000) -> Result:
    """Play every schedule; stop at the first broken invariant or after so many."""
    left: list[tuple[int, ...]] = [()]
    played = 0
    while left:
        if played == most:
            return Result(played, exhausted=False)
        schedule = left.pop()
        played += 1
        turns = _Schedule(schedule)
        try:
            _play(start, turns.next)
        except InvariantError as error:
            return Result(played, exhausted=False, error=str(error), trace=tuple(turns.trace))
        left += turns.others
    return Result(played, exhausted=True)


class _Schedule:
    """The turns of one play: first as given, and then always the first who can move. It keeps the other choices."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self._given = given
        self._taken: list[int] = []
        self.others: list[tuple[int, ...]] = []
        self.trace: list[str] = []

    def next(self, movable: dict[int, str]) -> int:
        first, *later = sorted(movable)
        if len(self._taken) < len(self._given):
            first = self._given[len(self._taken)]
        else:
            self.others += [(*self._taken, other) for other in later]
        self._taken.append(first)
        self.trace.append(movable[first])
        return first


def _play(start: Start, choose: Callable[[dict[int, str]], int]) -> None:
    job, given, barrier = start.reached()
    parts = range(barrier.parts)
    movers: list[tuple[str, Attempt]] = [
        ("first attempt", attempt(job, barrier, parts)),
        ("second attempt", attempt(job, barrier, parts[::-1])),
    ]
    if start.with_compaction:
        movers.append(("compaction", _compaction(job)))
    if start.with_next_epoch:
        movers.append(("next epoch", _next_epoch(job, given)))
    ended: set[int] = set()
    while True:
        movable = {
            n: name
            for n, (name, _) in enumerate(movers)
            if n not in ended and (name != "next epoch" or job.epoch >= barrier.epoch)
        }
        if not movable:
            break
        turn = choose(movable)
        before = job.epoch
        if next(movers[turn][1], None) is None:
            ended.add(turn)
        if job.epoch != before:
            _check(job)
    _check(job)


def _check(job: Job) -> None:
    rows = sales(job.upstream.as_of(job.committed_to).values())
    check_truth(job, [row for row in rows if job.scan.is_read(job.positions, row)])


def _compaction(job: Job) -> Iterator[str]:
    job.view.compact()
    job.compact_arrangement()
    yield from ()


def _next_epoch(job: Job, given: Barriers) -> Attempt:
    barrier = replace(given.next(), parts=1)
    yield from attempt(job, barrier, [0])
