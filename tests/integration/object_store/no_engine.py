"""Epochs without an engine: only control tables are written."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import EpochWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.tables.view_identity import INCARNATION_PROPERTY, JOB_PROPERTY, ViewIdentity
from tests.plain_engine import CountingEngine


class NoEngine(CountingEngine):
    """Reports that every chunk has as many rows as the rate limit, and writes nothing, not even the view."""

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make nothing."""

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Write nothing."""
        return EpochWrites({0: barrier.rate_limit or 0}, 0, {"chunk": 1.0})

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """Return the version of the view that :func:`make_view` makes."""
        return TableVersions(view=TableVersion(version=0))


def make_view(backfill: Backfill) -> None:
    """Make a job's empty view, where somebody looks for it."""
    settings = backfill.settings()
    location, identity = settings.definition.view_location, ViewIdentity.of(settings)
    DeltaTable.create(
        location,
        pa.schema([("id", pa.int64())]),
        configuration={JOB_PROPERTY: identity.job, INCARNATION_PROPERTY: identity.incarnation},
        storage_options=options_of(location, backfill.storage_options),
        raise_if_key_not_exists=False,
    )


def inject(backfill: Backfill, user: str, **options) -> Barrier:
    barrier = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user=user), **options
    ).barrier
    assert barrier is not None
    return barrier
