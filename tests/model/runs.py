"""
Drivers: play a scenario against one of the two algorithms, and check the invariants after every move.

A run raises :class:`~tests.model.truth.InvariantError` at the first move that breaks one. Both drivers end
with ``finish``: barriers without further writes, until the backfill is done and the view has caught up.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from tests.model.classical import Checkpoint, ClassicalExecutor
from tests.model.orchestrated import Attempt, Job, Planner, Protocol, Step, World, advance, plan_by_rows
from tests.model.truth import (
    COMPLETED,
    InvariantError,
    Query,
    check_monotonic,
    check_truth,
    paid_in_cents,
    true_view,
)
from tests.model.upstream import Upstream, as_stream
from tests.strategies import CRASH_POINTS, Barrier, Crash, Event, Scenario, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.model.tables import Plan

ENDLESS = 1000
"""After so many moves without an end, the backfill never ends."""


class ClassicalRun:
    """
    The classical executor under a scenario.

    ``pace`` says how many snapshot rows there is time for after each version that arrives, and before the
    barrier; with a pace of 0 only the reads forced at barriers are left. ``Crash`` is a death in the middle
    of an epoch, whatever its point.
    """

    def __init__(
        self,
        scenario: Scenario,
        query: Query = paid_in_cents,
        pace: Sequence[int] = (1,),
        *,
        drain_at_forced_end: bool = True,
    ) -> None:
        self.upstream = Upstream(scenario.columns, scenario.initial)
        self.checkpoint = Checkpoint(self.upstream.latest)
        self.barriers = 0
        self._query = query
        self._pace = cycle(pace or [0])
        self._drain_at_forced_end = drain_at_forced_end
        first = (event for event in scenario.events if isinstance(event, Barrier))
        self._settings = next(first, Barrier(rate_limit=1))
        self.executor = self._recover()

    def play(self, events: Iterable[Event]) -> None:
        """Let events happen in order."""
        for event in events:
            if isinstance(event, Write):
                self.upstream.write(event)
            elif isinstance(event, Crash):
                self.crash()
            else:
                self.barrier(event)

    def barrier(self, mutation: Barrier) -> None:
        """End the running epoch; the mutation holds from the next one on."""
        self._stream()
        before = self.checkpoint
        self.checkpoint = after = self.executor.on_barrier(self.upstream.latest, mutation)
        self._settings = mutation
        self.barriers += 1
        truth = true_view(self.upstream, self._query, after.version, after.progress)
        check_truth(after.view, truth)
        check_monotonic(
            self.upstream.order,
            (before.version, before.progress, before.row_count),
            (after.version, after.progress, after.row_count),
        )

    def crash(self) -> None:
        """
        Die when the epoch's messages were handled but its barrier was not, and recover from the checkpoint.
        """
        self._stream()
        self.executor = self._recover()

    def finish(self, rate_limit: int | None = None) -> int:
        """Send barriers until done; return how many that took."""
        before = self.barriers
        while not self.executor.reported_finished or self.checkpoint.version < self.upstream.latest:
            self.barrier(Barrier(rate_limit))
            if self.barriers - before > ENDLESS:
                raise InvariantError("I4 progress: the backfill does not finish")
        return self.barriers - before

    def _stream(self) -> None:
        for version in range(self.checkpoint.version + 1, self.upstream.latest + 1):
            self.executor.on_changes(as_stream(self.upstream.changes(version - 1, version)))
            self._poll()
        self._poll()

    def _poll(self) -> None:
        for _ in range(next(self._pace)):
            self.executor.poll_snapshot()

    def _recover(self) -> ClassicalExecutor:
        return ClassicalExecutor(
            self.upstream,
            self._query,
            self.checkpoint,
            self._settings,
            drain_at_forced_end=self._drain_at_forced_end,
        )


class OrchestratedRun:
    """
    Our order of operations under a scenario: one world, and any number of attempts in the middle of their
    work.
    """

    def __init__(
        self,
        scenario: Scenario,
        query: Query = paid_in_cents,
        protocol: Protocol | None = None,
        planner: Planner = plan_by_rows,
    ) -> None:
        upstream = Upstream(scenario.columns, scenario.initial)
        self.job = Job(upstream=upstream, query=query, protocol=protocol or Protocol(), planner=planner)
        self.world = World(latest=upstream.latest)
        self.attempts: list[Attempt] = []

    def play(self, events: Iterable[Event]) -> None:
        """Let events happen in order; what crashed stays as a zombie among the attempts."""
        for event in events:
            if isinstance(event, Write):
                self.write(event)
            elif isinstance(event, Crash):
                self.crash(event.point, event.barrier)
            else:
                self.run(event)

    def write(self, write: Write) -> None:
        """Write a version of the upstream."""
        self.world = World(
            latest=self.job.upstream.write(write),
            log=self.world.log,
            state=self.world.state,
            view=self.world.view,
        )

    def run(self, settings: Barrier) -> Plan:
        """Run one attempt from injection to its end; return the plan that it executed."""
        return self.drive(Attempt(settings=settings))

    def crash(self, point: str, settings: Barrier) -> Attempt:
        """Run an attempt until it stands at a point, and keep it there."""
        attempt = self.drive_to(point, Attempt(settings=settings))
        self.attempts.append(attempt)
        return attempt

    def drive(self, attempt: Attempt) -> Plan:
        """Run an attempt to its end."""
        for _ in range(ENDLESS):
            if attempt.ended:
                assert attempt.plan is not None
                return attempt.plan
            attempt = self.step(attempt)
        raise InvariantError("I4 progress: the attempt does not end")

    def drive_to(self, point: str, attempt: Attempt) -> Attempt:
        """
        Run an attempt until it stands at a point, or at the next one if it skips the write that the point
        belongs to.
        """
        points = CRASH_POINTS[CRASH_POINTS.index(point) :]
        while attempt.stands_at not in points:
            attempt = self.step(attempt)
        return attempt

    def step(self, attempt: Attempt) -> Attempt:
        """Take one step of an attempt and check the invariants."""
        before = self.world
        self.world, after = advance(self.job, before, attempt)
        check_world(self.job, before, self.world, after)
        return after

    def step_one(self, index: int) -> None:
        """Take one step of one of the attempts under way; those that have ended are forgotten."""
        if self.attempts:
            index %= len(self.attempts)
            self.attempts[index] = self.step(self.attempts[index])
            self.attempts = [attempt for attempt in self.attempts if not attempt.ended]

    def finish(self, rate_limit: int | None = None) -> int:
        """Run barriers until done; return how many that took."""
        runs = 0
        while (
            self.world.state.progress != COMPLETED
            or self.world.state.version < self.world.latest
            or self.world.log.uncommitted() is not None
        ):
            self.run(Barrier(rate_limit))
            runs += 1
            if runs > ENDLESS:
                raise InvariantError("I4 progress: the backfill does not finish")
        return runs


def check_world(job: Job, before: World, after: World, attempt: Attempt) -> None:
    """
    Check what must hold after one step: I1 and I3 at committed epochs, I4 for plans, and that nothing was
    refused.
    """
    if attempt.next is Step.REFUSED:
        raise InvariantError(f"I2 pure epoch: the view's log shows another plan than {attempt.plan}")
    if after.state is not before.state:
        old, new = before.state, after.state
        check_monotonic(
            job.upstream.order,
            (old.epoch, old.progress, old.row_count),
            (new.epoch, new.progress, new.row_count),
        )
        if new.epoch - old.epoch > 1 or new.version < old.version:
            raise InvariantError(f"I3 monotonic: {new} cannot follow {old}")
    plan = attempt.plan
    if plan is not None and not plan.settings.paused and plan.settings.rate_limit != 0:
        moved = plan.new != plan.old and plan.new.at_least(plan.old, job.upstream.order)
        if not moved and plan.old != COMPLETED:
            raise InvariantError(f"I4 progress: {plan} reads nothing")
    # While the next epoch is being written the view is between two truths.
    if after.view.epoch <= after.state.epoch and (after.view, after.state) != (before.view, before.state):
        check_truth(after.view.rows(), after.truth(job))
