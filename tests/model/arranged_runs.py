"""
A driver for the arrangement strategy: play a scenario, and check the invariants after every step.

As :mod:`tests.model.runs` for the others, with one thing more: how the work of an epoch is shared.
"""

from __future__ import annotations

from itertools import cycle
from random import Random
from typing import TYPE_CHECKING

from tests.model.arranged_attempts import ARRANGED_POINTS, Attempt, Step
from tests.model.arranged_job import Job, KnownKeys, Protocol, World, by_amount, keys_as_arranged
from tests.model.arranged_tables import ArrangedPlan, Arrangement, Distribution, Range, VnodeState
from tests.model.arrangement import advance, base_of, chunk
from tests.model.runs import ENDLESS
from tests.model.truth import COMPLETED, InvariantError, Query, check_monotonic, check_truth, paid_in_cents
from tests.model.upstream import Upstream
from tests.strategies import Barrier, Crash, Event, Rescale, Scenario, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WHOLE = 0


class ArrangedRun:
    """
    The arrangement strategy under a scenario: one world, and any number of runs in the middle of their work.

    ``sharing`` says how epochs are executed, one after the other and over again: :data:`WHOLE` is by one run, another
    number is the seed of the order in which the runs of the changes and of each part take their steps. ``made`` says
    whether the job's creation made the arrangement, or left that to the first epoch.
    """

    def __init__(
        self,
        scenario: Scenario,
        query: Query = paid_in_cents,
        protocol: Protocol | None = None,
        *,
        vnode_of: Distribution = by_amount,
        known_keys: KnownKeys = keys_as_arranged,
        sharing: Sequence[int] = (WHOLE,),
        made: bool = False,
    ) -> None:
        upstream = Upstream(scenario.columns, scenario.initial)
        self.job = Job(
            upstream=upstream,
            query=query,
            vnode_of=vnode_of,
            protocol=protocol or Protocol(),
            known_keys=known_keys,
        )
        arrangement = Arrangement().made(base_of(self.job)) if made else Arrangement()
        initial = VnodeState.initial(self.job.vnode_count)
        self.world = World(latest=upstream.latest, state=initial, arrangement=arrangement)
        self.attempts: list[Attempt] = []
        self._sharing = cycle(sharing)

    def play(self, events: Iterable[Event]) -> None:
        """Let events happen in order; what crashed stays as a zombie among the attempts."""
        for event in events:
            match event:
                case Write():
                    self.write(event)
                case Rescale():
                    self.rescale(event.parallelism)
                case Crash():
                    self.crash(event.point, event.barrier)
                case Barrier():
                    self.run(event)

    def write(self, write: Write) -> None:
        """Write a version of the upstream."""
        self.world = changed(self.world, latest=self.job.upstream.write(write))

    def rescale(self, parallelism: int) -> None:
        """Change the number of runs from the next barrier on."""
        self.world = changed(self.world, parallelism=parallelism)

    def run(self, settings: Barrier) -> ArrangedPlan:
        """Execute an epoch from injection to its end, shared as ``sharing`` says; return its plan."""
        seed = next(self._sharing)
        first = Attempt(settings=settings) if seed == WHOLE else Attempt(settings=settings, only="changes")
        plan = self.drive(first)
        if seed != WHOLE:
            self.drive_together([Attempt(settings=settings, only=part) for part in range(len(plan.parts))], seed)
        if self.world.log.uncommitted() is not None:
            raise InvariantError(f"I4 progress: no run has committed {plan}")
        return plan

    def crash(self, point: str, settings: Barrier) -> Attempt:
        """Run an attempt until it stands at a point, and keep it there."""
        attempt = self.drive_to(point, Attempt(settings=settings, first_part=next(self._sharing)))
        self.attempts.append(attempt)
        return attempt

    def drive(self, attempt: Attempt) -> ArrangedPlan:
        """Run an attempt to its end."""
        for _ in range(ENDLESS):
            if attempt.ended:
                assert attempt.plan is not None
                return attempt.plan
            attempt = self.step(attempt)
        raise InvariantError("I4 progress: the attempt does not end")

    def drive_together(self, attempts: Sequence[Attempt], seed: int) -> None:
        """Run attempts to their ends, step by step in a random order."""
        turns, under_way = Random(seed), list(attempts)
        while under_way:
            index = turns.randrange(len(under_way))
            under_way[index] = self.step(under_way[index])
            under_way = [attempt for attempt in under_way if not attempt.ended]

    def drive_to(self, point: str, attempt: Attempt) -> Attempt:
        """Run an attempt until it stands at a point, or at the next one if it has no such write."""
        points = ARRANGED_POINTS[ARRANGED_POINTS.index(point) :]
        while attempt.stands_at not in points:
            attempt = self.step(attempt)
        return attempt

    def step(self, attempt: Attempt) -> Attempt:
        """Take one step of an attempt and check the invariants."""
        before = self.world
        self.world, after = advance(self.job, before, attempt)
        check_arranged(self.job, before, self.world, after)
        return after

    def step_one(self, index: int) -> None:
        """Take one step of one of the attempts under way; those that have ended are forgotten."""
        if self.attempts:
            index %= len(self.attempts)
            self.attempts[index] = self.step(self.attempts[index])
            self.attempts = [attempt for attempt in self.attempts if not attempt.ended]

    def finish(self, rate_limit: int | None = None) -> int:
        """Run barriers until done; return how many that took."""
        epochs = 0
        while (
            not self.world.state.completed
            or self.world.state.version < self.world.latest
            or self.world.log.uncommitted() is not None
        ):
            self.run(Barrier(rate_limit))
            epochs += 1
            if epochs > ENDLESS:
                raise InvariantError("I4 progress: the backfill does not finish")
        return epochs

    @property
    def plans(self) -> list[ArrangedPlan]:
        """The plans of the committed epochs."""
        return [self.world.log.pinned(entry.epoch) for entry in self.world.log.entries]


def changed(world: World, *, latest: int | None = None, parallelism: int | None = None) -> World:
    """Return the world after something that no run does."""
    return World(
        latest=world.latest if latest is None else latest,
        parallelism=world.parallelism if parallelism is None else parallelism,
        state=world.state,
        log=world.log,
        reports=world.reports,
        arrangement=world.arrangement,
        view=world.view,
    )


def check_arranged(job: Job, before: World, after: World, attempt: Attempt) -> None:
    """
    Check what must hold after one step: I1 and I3 at committed epochs, I4 for plans, and that nothing was refused.
    """
    if attempt.next is Step.REFUSED:
        raise InvariantError(f"I2 pure epoch: a table's log shows another plan than {attempt.plan}")
    if after.state is not before.state:
        old, new = before.state, after.state
        for vnode, (was, now) in enumerate(zip(old.vnodes, new.vnodes, strict=True)):
            check_monotonic(
                job.upstream.order,
                (old.epoch, was, old.row_counts[vnode]),
                (new.epoch, now, new.row_counts[vnode]),
            )
        if new.epoch - old.epoch > 1 or new.version < old.version:
            raise InvariantError(f"I3 monotonic: {new} cannot follow {old}")
    if attempt.plan is not None:
        check_progress(job, attempt.plan)
    # While the next epoch is being written the view is between two truths.
    if after.view.epoch <= after.state.epoch and (after.view, after.state) != (before.view, before.state):
        check_truth(after.view.rows(), after.truth(job))


def check_progress(job: Job, plan: ArrangedPlan) -> None:
    """I4: a plan that is neither held nor makes the arrangement goes forward, unless all vnodes are completed."""
    held = plan.settings.paused or plan.settings.rate_limit == 0 or plan.arranges
    if held or all(progress == COMPLETED for progress in plan.before):
        return
    forward = all(new.at_least(old, job.upstream.order) for old, new in zip(plan.before, plan.progress, strict=True))
    if plan.progress == plan.before or not forward:
        raise InvariantError(f"I4 progress: {plan} reads nothing, or what was read")


def check_chunks(job: Job, world: World) -> None:
    """
    I2: a part that is executed again, however late, reads the upstream's rows in its ranges as of the epoch's end.
    """
    for plan in (world.log.pinned(entry.epoch) for entry in world.log.entries):
        for part, ranges in enumerate(plan.parts):
            found = chunk(job, world, plan, part)
            if found != _as_of_the_end(job, plan, ranges):
                raise InvariantError(f"I2 pure epoch: part {part} of {plan} reads {found}")


def _as_of_the_end(job: Job, plan: ArrangedPlan, ranges: tuple[Range, ...]) -> list[object]:
    order = job.upstream.order
    rows = [((job.vnode_of(row), key), row) for key, row in job.upstream.as_of(plan.up_to).items()]
    within = [item for item in rows if any(covered.covers(item[0], order) for covered in ranges)]
    return sorted(within, key=lambda item: item[0][0])
