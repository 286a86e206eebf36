"""What the tests of verifications share: a job, epochs, verifications, and engines that watch or fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    BackfillError,
)
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from tests.builders import Orders, job_of
from tests.plain_engine import CountingEngine, make

VERA = Requester(user="vera")


def nine_orders(lake: Path) -> Orders:
    orders = Orders(lake)
    orders.add(*range(9))
    return orders


def created_job(lake: Path) -> Backfill:
    """Create a job over ``orders``, three an epoch."""
    backfill = Backfill(job_of(lake, rate_limit=3))
    make(backfill)
    return backfill


def epoch(backfill: Backfill) -> None:
    done = protocol.run_next_epoch(
        store=backfill.store, upstream=backfill.upstream, requester=VERA, engine=lambda _: CountingEngine()
    )
    assert done.commit is not None


def verify(backfill: Backfill, *missing: str, **arguments: Any):
    return verifier.verify_job(
        backfill, engine=lambda: CountingEngine([missing]), requester=VERA, anew=True, **arguments
    )


class Watching(CountingEngine):
    """Records what it compares, and lets something happen before."""

    def __init__(self, meanwhile: Callable[[], object] = bool) -> None:
        super().__init__()
        self.meanwhile = meanwhile
        self.compared: list[tuple[int, Any]] = []

    def compare(self, settings: Any, pinned: Any, barrier: Any, vnodes: Any) -> Any:
        self.compared.append((barrier.epoch, vnodes))
        self.meanwhile()
        return super().compare(settings, pinned, barrier, vnodes)


class Forgetful(CountingEngine):
    """
    An engine that cannot read one of the upstream's versions any more.

    :param gone: the version.
    :param error: the error that it raises.
    """

    def __init__(self, gone: int, error: BackfillError) -> None:
        super().__init__()
        self.gone, self.error = gone, error

    def compare(self, settings: Any, pinned: Any, *arguments: Any) -> Any:
        if pinned.upstream_version.number == self.gone:
            raise self.error
        return super().compare(settings, pinned, *arguments)
