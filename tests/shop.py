"""Two small tables in Delta that change at known minutes, and a job over both of them, which counts its rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.builders import NOW, committed_at, write_table
from tests.plain_engine import CountingEngine
from tests.several import star

TESTER = Requester(user="tester")


def minute(number: float) -> dt.datetime:
    """Return an instant."""
    return NOW + dt.timedelta(minutes=number)


class Shop:
    """
    Orders and customers in Delta, and a view over both; every commit and every look has its minute.

    :param unrecorded: the tables that record no changes.
    """

    def __init__(self, folder: Path, *, unrecorded: Collection[str] = (), **fields: Any) -> None:
        self.folder, self.unrecorded = folder, unrecorded
        self.versions = {"orders": -1, "customers": -1}
        self.commit("orders", 0, {"id": [1, 2], "customer": [1, 2]})
        self.commit("customers", 1, {"id": [1, 2], "name": ["a", "b"]})
        names = ("orders", "customers")
        job = {
            "materialized_view": f"{folder}/view",
            "upstreams": {name: {"path": f"{folder}/{name}", "key": ["id"]} for name in names},
            "strategy": "no_shuffle",
        }
        self.job = BackfillJob(**star(**{**job, **fields}))
        self.now = 2.0

    def commit(self, table: str, at: float, columns: dict[str, list[Any]]) -> None:
        """Append rows to a table at a minute."""
        path = f"{self.folder}/{table}"
        arrays = {name: pa.array(values) for name, values in columns.items()}
        write_table(path, arrays, **({"configuration": {}} if table in self.unrecorded else {}))
        self.versions[table] += 1
        committed_at(path, self.versions[table], minute(at))

    def order(self, at: float, key: int) -> None:
        """Append an order at a minute."""
        self.commit("orders", at, {"id": [key], "customer": [1]})

    def customer(self, at: float, key: int) -> None:
        """Append a customer at a minute."""
        self.commit("customers", at, {"id": [key], "name": ["c"]})

    @property
    def backfill(self) -> Backfill:
        """The job with its tables."""
        return Backfill(self.job)

    def clock(self) -> dt.datetime:
        """Return the present minute."""
        return minute(self.now)

    def create(self) -> JobSettings:
        """Create the job."""
        backfill = self.backfill
        return creation.create_job(
            self.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=CountingEngine,
            requested_by="tester",
            clock=self.clock,
        )

    def ask(self, until: dt.datetime | None = None) -> protocol.Injection:
        """Ask for a barrier."""
        backfill = self.backfill
        return protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=TESTER, until=until, clock=self.clock
        )

    def epoch(self, until: dt.datetime | None = None) -> Barrier:
        """Pin a barrier and run it."""
        injected = self.ask(until)
        assert injected.barrier is not None, injected.reason
        protocol.run_epoch(injected.barrier, store=self.backfill.store, engine=CountingEngine(), clock=self.clock)
        return injected.barrier
