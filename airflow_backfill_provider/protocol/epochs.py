"""
The one loop over epochs: ask for a barrier, run it, and again. Each epoch is a barrier of its own.

Whoever runs epochs goes through it: a task run, the application that it submits, a command line, and a repair. Whatever
somebody asks of the job takes effect at the next barrier; nothing is handed from one epoch to the next.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.engine import Engine
from airflow_backfill_provider.core.epoch_record import EpochCommit
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.protocol.inject import Injection, inject_barrier
from airflow_backfill_provider.protocol.run import run_barrier
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.store import BackfillStore

REBUILT = "the job was rebuilt meanwhile; another run has to begin with it"


def once(step: Callable[[], Injection]) -> Injection:
    """Take a step; its error is whoever's who asked for it."""
    return step()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLoop:
    """
    Runs epochs one after another.

    :param requester: who asks for them.
    :param run: runs a pinned barrier to its commit, in this process or by an application elsewhere.
    :param until: as in :func:`~airflow_backfill_provider.protocol.inject.inject_barrier`.
    :param epochs: how many a task run pins at most, in all its tries; nobody else is bound by it.
    :param attempt: how a step is taken, with retries, say.
    """

    store: BackfillStore
    upstream: Source
    requester: Requester
    run: Callable[[Barrier], EpochCommit]
    until: dt.datetime | None = None
    epochs: int = 1
    clock: Clock = utc_now
    attempt: Callable[[Callable[[], Injection]], Injection] = once

    def step(self) -> Injection:
        """
        Ask for the next barrier, and run it.

        :returns: the barrier and its commit, or why there is nothing to do.
        :raises BackfillError: if there can be no barrier, or its epoch cannot be done.
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
        """Yield each step, up to one that had nothing to do, or to the last that the requester may pin."""
        return self.after(None)

    def after(self, pinned: Barrier | None) -> Iterator[Injection]:
        """
        Yield each step, the first one of a barrier that is pinned already.

        :raises BackfillError: if an epoch cannot be done; those before it are committed.
        """
        step = self.step if pinned is None else partial(self._run_pinned, pinned)
        while True:
            done = self.attempt(step)
            yield done
            if done.barrier is None or not self._goes_on(done.barrier):
                return
            if self._is_rebuilt(done.barrier):
                yield Injection(None, reason=REBUILT)
                return
            step = self.step

    def _run_pinned(self, pinned: Barrier) -> Injection:
        return Injection(pinned, self.run(pinned))

    def _is_rebuilt(self, done: Barrier) -> bool:
        """Tell whether the job was rebuilt while a task run ran its own epochs, which belong together."""
        if done.injected_by != self.requester or not self.requester.is_task_run:
            return False
        return self.store.settings().incarnation != done.incarnation

    def _goes_on(self, done: Barrier) -> bool:
        """Tell whether the requester may pin another barrier; a task run also where the last one was of others."""
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

    :param engine: makes the engine for a barrier that is to be run.
    :param until: as in :class:`EpochLoop`.
    :param epochs: as there.
    :returns: as :meth:`EpochLoop.step`.
    :raises BackfillError: as there.
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
) -> Iterator[Injection]:
    """
    Run a pinned barrier, and after it as many as the task run that asked for it may still pin.

    Ends early where that task run would: when there is nothing to do, which is the last thing that is yielded, and once
    every vnode is Completed.

    :param engine: makes the engine for a barrier that is to be run; the same for all.
    :param until: as in :class:`EpochLoop`.
    :param epochs: as there.
    :raises BackfillError: if an epoch cannot be done; those before it are committed.
    """
    loop = EpochLoop(
        store=store,
        upstream=upstream,
        requester=barrier.injected_by,
        run=run_with(engine, store=store, clock=clock),
        until=until,
        epochs=epochs,
        clock=clock,
    )
    return itertools.islice(loop.after(barrier), epochs)


def run_with(
    engine: Callable[[Barrier], Engine], *, store: BackfillStore, clock: Clock = utc_now, by: str | None = None
) -> Callable[[Barrier], EpochCommit]:
    """
    Return what runs a barrier with an engine in this process.

    :param by: who runs it; by default whoever asked for the barrier.
    """

    def run(barrier: Barrier) -> EpochCommit:
        return run_barrier(barrier, store=store, engine=engine(barrier), clock=clock, by=by)

    return run
