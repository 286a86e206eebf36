"""This package: a whole backfill in a session that is warm, from the job's creation until the view is finished."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.cdc.orders import DATABASE, KEY, TABLE
from bench.measuring import REQUESTER
from tests.postgres_server import PostgresServer

_CONNECTION = "bench_db"


@dataclass
class CdcBackfill:
    """
    One backfill.

    :param folder: for its tables.
    :param rate_limit: rows of a chunk; ``None`` for all.
    """

    engine: SparkEngine
    folder: Path
    rate_limit: int | None
    table: str = TABLE
    commits: list[EpochCommit] = field(default_factory=list)

    def run(self) -> None:
        """Create the job, and run epochs until the view is finished."""
        backfill = self.backfill
        creation.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: self.engine,
            requested_by=str(REQUESTER),
        )
        while not backfill.store.state().completed:
            self._epoch()

    def catch_up(self) -> None:
        """Run an epoch over the changes since, and end the job on the server."""
        self._epoch()
        self.backfill.upstream.end(self.backfill.job.name)

    @property
    def view(self) -> Path:
        """The view."""
        return self.folder / "view"

    @cached_property
    def backfill(self) -> Backfill:
        """The job with its tables."""
        upstream = {"postgres": {"connection": _CONNECTION, "table": self.table, "key": [KEY]}}
        return Backfill(
            BackfillJob(
                name="bench_cdc",
                upstream=upstream,
                materialized_view=str(self.view),
                query="SELECT * FROM upstream",
                state=str(self.folder / "state"),
                rate_limit=self.rate_limit,
            )
        )

    def _epoch(self) -> None:
        backfill = self.backfill
        barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=REQUESTER).barrier
        if barrier is not None:
            self.commits.append(protocol.run_epoch(barrier, store=backfill.store, engine=self.engine))

    @property
    def stages(self) -> list[Mapping[str, float]]:
        """The seconds of each epoch's stages."""
        return [commit.seconds for commit in self.commits]


@contextmanager
def connection_to(server: PostgresServer) -> Iterator[None]:
    """Define the connection that the jobs name."""
    name = f"AIRFLOW_CONN_{_CONNECTION.upper()}"
    os.environ[name] = server.uri(DATABASE)
    try:
        yield
    finally:
        del os.environ[name]
