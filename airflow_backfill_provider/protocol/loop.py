"""
The loop over epochs: request a barrier, run it, repeat.

Task runs, the Spark applications that they submit, the command line and repairs all use it. Changes of the settings
take effect at the next barrier; nothing else is passed from one epoch to the next.
"""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from airflow_backfill_provider.core.clock import Clock, utc_now
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import Engine
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.protocol.inject import Injection, inject_barrier
from airflow_backfill_provider.protocol.pacing import Pacer, Wait
from airflow_backfill_provider.protocol.run import run_epoch
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.store import BackfillStore

REBUILT = "the job was rebuilt meanwhile; another run has to begin with it"


def once(step: Callable[[], Injection]) -> Injection:
    """Take a step without retries."""
    return step()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLoop:
    """
    Runs epochs one after another.

    :param requester: who requests them.
    :param run: runs a pinned barrier to its commit, in this process or in a Spark application.
    :param until: as in :func:`~airflow_backfill_provider.protocol.inject.inject_barrier`.
    :param epochs: how many barriers a task run may pin, in all its tries; other requesters have no limit.
    :param attempt: calls a step, for example with retries.
    :param wait: waits some seconds between epochs, to keep the job's pace. ``None`` keeps none: for a loop of single
        epochs, whose pace is the schedule's.
    """

    store: BackfillStore
    upstream: Source
    requester: Requester
    run: Callable[[Barrier], EpochCommit]
    until: dt.datetime | None = None
    epochs: int = 1
    clock: Clock = utc_now
    attempt: Callable[[Callable[[], Injection]], Injection] = once
    wait: Wait | None = None

    def step(self) -> Injection:
        """
        Request the next barrier, and run it.

        :returns: the barrier and its commit, or why there is nothing to do.
        :raises BackfillError: if no barrier can be pinned, or its epoch fails.
        """
        injection = inject_barrier(
            store=self.store,
            upstream=self.upstream,
            requester=self.requester,
            until=self.until,
            epochs=self.epochs,
            clock=self.clock,
        )
        if injection.barrier is None or injection.commit is not None:
            return injection
        return Injection(injection.barrier, self.run(injection.barrier))

    def __iter__(self) -> Iterator[Injection]:
        """Yield each step, until one has nothing to do or the requester may pin no more barriers."""
        return self.after(None)

    def after(self, pinned: Barrier | None) -> Iterator[Injection]:
        """
        Yield each step; the first one runs a barrier that is already pinned.

        :raises BackfillError: if an epoch fails; the epochs before it are committed.
        """
        step = self.step if pinned is None else partial(self._run_pinned, pinned)
        pacer = (
            None
            if self.wait is None
            else Pacer(store=self.store, wait=self.wait, clock=self.clock, began_at=self.clock())
        )
        while True:
            done = self.attempt(step)
            yield done
            if done.barrier is None or not self._goes_on(done.barrier):
                return
            if self._is_rebuilt(done.barrier):
                yield Injection(None, reason=REBUILT)
                return
            if pacer is not None and done.commit is not None:
                pacer.rows += done.commit.snapshot_read_row_count
                pacer.until_due()
            step = self.step

    def _run_pinned(self, pinned: Barrier) -> Injection:
        return Injection(pinned, self.run(pinned))

    def _is_rebuilt(self, done: Barrier) -> bool:
        """Return whether the job was rebuilt between epochs of the same task run."""
        if done.injected_by != self.requester or not self.requester.is_task_run:
            return False
        return self.store.settings().incarnation != done.incarnation

    def _goes_on(self, done: Barrier) -> bool:
        """Return whether to continue; a task run always continues after a barrier of another requester."""
        if not self.requester.is_task_run or done.injected_by != self.requester:
            return True
        return self.store.epochs_of(self.requester).may_pin_another(self.epochs)


def run_next_epoch(
    *,
    store: BackfillStore,
    upstream: Source,
    requester: Requester,
    engine: Callable[[Barrier], Engine],
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
) -> Injection:
    """
    Take one step of the loop with an engine in this process.

    :param engine: makes the engine that runs a barrier.
    :param until: as in :class:`EpochLoop`.
    :param epochs: as in :class:`EpochLoop`.
    :returns: as :meth:`EpochLoop.step`.
    :raises BackfillError: as :meth:`EpochLoop.step`.
    """
    return EpochLoop(
        store=store,
        upstream=upstream,
        requester=requester,
        run=run_with(engine, store=store, clock=clock, by=str(requester)),
        until=until,
        epochs=epochs,
        clock=clock,
    ).step()


def run_epochs(
    barrier: Barrier,
    *,
    store: BackfillStore,
    upstream: Source,
    engine: Callable[[Barrier], Engine],
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
    wait: Wait = time.sleep,
) -> Iterator[Injection]:
    """
    Run a pinned barrier, and then as many as the task run that requested it may still pin.

    It ends early if there is nothing to do; that step is the last one yielded.

    :param engine: makes the engine that runs a barrier; the same for all.
    :param until: as in :class:`EpochLoop`.
    :param epochs: as in :class:`EpochLoop`.
    :param wait: as in :class:`EpochLoop`.
    :raises BackfillError: if an epoch fails; the epochs before it are committed.
    """
    loop = EpochLoop(
        store=store,
        upstream=upstream,
        requester=barrier.injected_by,
        run=run_with(engine, store=store, clock=clock),
        until=until,
        epochs=epochs,
        clock=clock,
        wait=wait,
    )
    return itertools.islice(loop.after(barrier), epochs)


def run_with(
    engine: Callable[[Barrier], Engine], *, store: BackfillStore, clock: Clock = utc_now, by: str | None = None
) -> Callable[[Barrier], EpochCommit]:
    """
    Return a function that runs a barrier with an engine in this process.

    :param by: who runs it; by default the requester of the barrier.
    """

    def run(barrier: Barrier) -> EpochCommit:
        return run_epoch(barrier, store=store, engine=engine(barrier), clock=clock, by=by)

    return run
