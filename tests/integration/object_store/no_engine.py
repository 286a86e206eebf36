"""Epochs without an engine: only control tables are written."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.table_version import TableVersions
from airflow_backfill_provider.protocol import EpochWrites
from airflow_backfill_provider.protocol.backfill import Backfill
from tests.plain_engine import CountingEngine


class NoEngine(CountingEngine):
    """Reports that every chunk has as many rows as the rate limit, and writes nothing, not even the view."""

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make nothing."""

    def execute(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Write nothing."""
        return EpochWrites({0: barrier.rate_limit or 0}, 0, {"snapshot": 1.0})

    def table_versions(  # type: ignore[override]
        self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Return nothing, because there is no view."""


def inject(backfill: Backfill, user: str, **options) -> Barrier:
    barrier = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user=user), **options
    ).barrier
    assert barrier is not None
    return barrier
