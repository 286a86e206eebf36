"""Rebuilds and changed queries that wait for an approval."""

from __future__ import annotations

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.status.cut_over import CutOverStatus
from airflow_backfill_provider.jobs import changed_query, cut_over, succession
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.builders import PAID
from tests.cut_overs import approved
from tests.property.backfilling import TESTER, Backfilling

GATED = {"cut_over": "on_approval"}


def latter_of(backfilling: Backfilling, **changes: object) -> BackfillJob:
    """Return another definition of a job, which waits for approvals."""
    return BackfillJob(**{**backfilling.job.model_dump(mode="json"), "query": PAID, **GATED, **changes})


def grow(backfilling: Backfilling, **changes: object) -> None:
    """Begin a rebuild beside the view."""
    succession.grow_successor(
        latter_of(backfilling, **changes),
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=backfilling.engine,
        requested_by="ann",
        clock=backfilling.clock,
    )


def growing(backfilling: Backfilling) -> Backfill:
    """Return the rebuild that grows."""
    found = backfilling.backfill.successor
    assert found is not None
    return found


def step(backfilling: Backfilling) -> bool:
    """Run one epoch of the rebuild; return whether there was one."""
    store = growing(backfilling).store
    barrier = protocol.inject_barrier(
        store=store, upstream=backfilling.orders.table, requester=TESTER, clock=backfilling.clock
    ).barrier
    if barrier is not None:
        protocol.run_epoch(barrier, store=store, engine=backfilling.engine(), clock=backfilling.clock)
    return barrier is not None


def grown(backfilling: Backfilling) -> Backfill:
    """Run all epochs of the rebuild."""
    while step(backfilling):
        pass
    return growing(backfilling)


def change(backfilling: Backfilling, **changes: object) -> JobSettings:
    """Change the job's definition."""
    job = latter_of(backfilling, **changes)
    settings = changed_query.change_query(
        job,
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=backfilling.engine,
        requested_by="ann",
        clock=backfilling.clock,
    )
    backfilling.job = job
    return settings


def waiting(backfilling: Backfilling) -> CutOverStatus | None:
    """Return what is ready and waits."""
    return cut_over.cut_over_status(backfilling.store, backfilling.store.settings())


def approve(backfilling: Backfilling) -> JobSettings:
    """Look at the difference of what waits, and approve it."""
    return approved(backfilling.backfill, backfilling.clock)
