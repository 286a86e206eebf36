"""A game about one view over tables that change: how it is created, when its epochs run, and how it ends."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import verifier
from faults.campaign import RIGHT, Outcome, WrongError
from faults.epoch_attempts import POINTS, EpochAttempts
from faults.lives.tables import DrawnTable, PlayedTables
from faults.table_histories import QueryFails
from tests.dying import died
from tests.integration.engine.lakehouse import Lakehouse

MOST_EPOCHS = 40
"""The most epochs between two changes; a job has few rows."""


class OneViewGame(ABC):
    """
    Plays one case.

    :param tables: the tables of the case.
    :param seed: the seed of everything that happens to the job.
    :param spark: any session; the writers, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, tables: Sequence[DrawnTable], seed: int, spark: SparkSession, folder: Path) -> None:
        self.checks = 0
        self.happened: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._tables = PlayedTables(tables, spark, folder / "tables")
        self._lake = Lakehouse(spark, folder / "job")
        self._lake.engine = SparkEngine(spark.newSession())
        self._attempts = EpochAttempts(self._lake, self._random, self._inject)

    @abstractmethod
    def play(self) -> None:
        """Play the case to its end; raise what is wrong."""

    def outcome(self, summary: str) -> Outcome:
        """
        Play the case; it ends right, or as soon as Spark fails on the query itself.

        :param summary: the case in one line.
        """
        result = RIGHT
        try:
            self.play()
        except QueryFails:
            result = "QueryFailedError"
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.happened.items()))
        return Outcome(result, self.checks, f"{counts} | {summary}")

    def _inject(self) -> Barrier | None:
        """Pin the next barrier."""
        return self._lake.inject()

    @abstractmethod
    def _epoch(self) -> bool:
        """Run an epoch in some way, and compare the view; return whether there was anything to do."""

    def _create(self, backfill: Backfill) -> None:
        """Create the job; attempts die at times."""
        if self._random.random() < 0.3:
            died(self._random.choice(POINTS), lambda: self._lake.start_job(creation.create_job, backfill))
        self._lake.start_job(creation.create_job, backfill)

    def _some_epochs(self) -> None:
        for _ in range(self._random.choice((0, 1, 1, 2, MOST_EPOCHS))):
            if not self._epoch():
                return

    def _all_epochs(self) -> None:
        for _ in range(MOST_EPOCHS):
            if not self._epoch():
                return
        raise WrongError(f"I4: something is still due after {MOST_EPOCHS} epochs")

    def _require_verified(self) -> None:
        """Refuse a verification that finds anything."""
        outcome = verifier.compare_now(self._lake.backfill, self._lake.engine)
        if not outcome.equal:
            raise WrongError(f"the verification finds differences that are none: {outcome}")
