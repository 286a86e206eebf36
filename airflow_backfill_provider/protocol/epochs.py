"""
Running epochs one after another with one engine; each is a barrier of its own.

Whatever somebody asks of the job takes effect at the next barrier, as if another run had injected it: nothing is
carried from one epoch to the next but the engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from airflow_backfill_provider.core.barrier import Barrier, Requester
from airflow_backfill_provider.core.engine import Engine
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.protocol.inject import Injection, inject_barrier
from airflow_backfill_provider.protocol.run import run_barrier
from airflow_backfill_provider.state.store import BackfillStore

REBUILT = "the job was rebuilt meanwhile; another run has to begin with it"


def run_next_epoch(
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    requester: Requester,
    engine: Callable[[Barrier], Engine],
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
) -> Injection:
    """
    Inject the next barrier and run it.

    :param engine: makes the engine for a barrier that is to be run.
    :param until: as in :func:`inject_barrier`.
    :param epochs: how many the requester carries at most, as in :func:`inject_barrier`.
    :returns: the barrier and its commit, or why there is nothing to do.
    :raises BackfillError: if there can be no barrier, or its epoch cannot be done.
    """
    injection = inject_barrier(
        store=store, upstream=upstream, requester=requester, until=until, epochs=epochs, clock=clock
    )
    barrier = injection.barrier
    if barrier is None or injection.commit is not None:
        return injection
    done = run_barrier(barrier, store=store, engine=engine(barrier), clock=clock, by=str(requester))
    return Injection(barrier, done)


def run_epochs(
    barrier: Barrier,
    *,
    store: BackfillStore,
    upstream: UpstreamTable,
    engine: Callable[[Barrier], Engine],
    until: dt.datetime | None = None,
    epochs: int = 1,
    clock: Clock = utc_now,
) -> Iterator[Injection]:
    """
    Run a pinned barrier, and after it as many as the task run that asked for it may still carry.

    Ends early where that task run would: when there is nothing to do, which is the last thing that is yielded, and once
    every vnode is Completed.

    :param engine: makes the engine for a barrier that is to be run; the same for all.
    :param until: as in :func:`inject_barrier`.
    :param epochs: how many epochs the task run carries at most, in all its tries.
    :raises BackfillError: if an epoch cannot be done; those before it are committed.
    """
    requester = barrier.injected_by
    yield Injection(barrier, run_barrier(barrier, store=store, engine=engine(barrier), clock=clock))
    for _ in range(1, epochs):
        if not store.carried_by(requester).may_pin_another(epochs):
            return
        if store.settings().incarnation != barrier.incarnation:
            yield Injection(None, reason=REBUILT)
            return
        done = run_next_epoch(
            store=store,
            upstream=upstream,
            requester=requester,
            engine=engine,
            until=until,
            epochs=epochs,
            clock=clock,
        )
        yield done
        if done.barrier is None:
            return
