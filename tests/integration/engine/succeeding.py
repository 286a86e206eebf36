"""A rebuild that grows beside a job's view."""

from __future__ import annotations

from typing import Any

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.jobs import succession
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.integration.engine.lakehouse import TESTER, Lakehouse


def grow(lake: Lakehouse, **fields: Any) -> JobSettings:
    """Begin a rebuild beside the view, with another definition in the job's file."""
    return lake.start_job(succession.grow_successor, lake.define(**fields))


def growing(lake: Lakehouse) -> Backfill:
    """Return the job that grows."""
    found = lake.backfill.successor
    assert found is not None
    return found


def step(lake: Lakehouse) -> bool:
    """Run one epoch of the job that grows; return whether there was one."""
    backfill = growing(lake)
    barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER).barrier
    if barrier is not None:
        protocol.run_epoch(barrier, store=backfill.store, engine=lake.engine)
    return barrier is not None


def grown(lake: Lakehouse) -> None:
    """Run all epochs of the job that grows."""
    while step(lake):
        pass
