"""A view that is kept up to date in two ways: by the epochs of its jobs, and by one statement that computes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.adoption import AdoptingEngine
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.measuring import REQUESTER


@dataclass(frozen=True, slots=True)
class KeptView:
    """
    A view that epochs keep, and a table that one statement makes anew.

    :param kind: its name in the report.
    :param jobs: its job; if the view is the last one of a chain, all jobs of the chain in their order.
    :param statement: the query of the whole view, over tables by their paths.
    :param folder: for the computed table.
    """

    kind: str
    jobs: tuple[BackfillJob, ...]
    statement: str
    folder: Path

    @property
    def location(self) -> str:
        """Where the view is."""
        return self.jobs[-1].materialized_view

    @property
    def computed(self) -> Path:
        """Where the computed table is."""
        return self.folder / "computed"

    def load(self, engine: AdoptingEngine) -> list[float]:
        """Create each job, and read its history; return the seconds of the epochs, without those of creation."""
        seconds = []
        for job in self.jobs:
            start(job, engine)
            seconds += _run_epochs(Backfill(job), engine)
        return seconds

    def run_epochs(self, engine: AdoptingEngine) -> list[float]:
        """Run epochs of each job until there is nothing to do; return the seconds of each, with its injection."""
        return [seconds for job in self.jobs for seconds in _run_epochs(Backfill(job), engine)]

    def compute(self, spark: SparkSession) -> float:
        """Compute the whole result again, as a table of its own; return the seconds."""
        started = time.perf_counter()
        spark.sql(f"CREATE OR REPLACE TABLE delta.`{self.computed}` USING delta AS {self.statement}")
        return time.perf_counter() - started

    def require_equal(self, spark: SparkSession) -> None:
        """
        Compare the view with the computed table.

        :raises AssertionError: if they differ.
        """
        computed = spark.read.format("delta").load(str(self.computed))
        view = spark.read.format("delta").load(self.location).select(*computed.columns)
        differing = view.exceptAll(computed).count() + computed.exceptAll(view).count()
        assert not differing, f"{self.folder.name}: {differing:,} rows differ"


def start(job: BackfillJob, engine: AdoptingEngine, action: Callable[..., object] = creation.create_job) -> None:
    """Create a job, or make its definition its own by another action."""
    backfill = Backfill(job)
    action(job, store=backfill.store, upstream=backfill.upstream, engine=lambda: engine, requested_by=str(REQUESTER))


def _run_epochs(backfill: Backfill, engine: AdoptingEngine) -> list[float]:
    seconds: list[float] = []
    while True:
        started = time.perf_counter()
        barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=REQUESTER).barrier
        if barrier is None:
            return seconds
        protocol.run_epoch(barrier, store=backfill.store, engine=engine)
        seconds.append(time.perf_counter() - started)
