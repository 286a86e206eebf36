"""One job of a case: its epochs, some of which die and are run again, and the comparison after each of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError, InvalidJobError, QueryFailedError
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.damaged_view import damage_and_ask_for_repair
from faults.failing_rows import fails
from faults.groups.case import GroupJob
from faults.groups.truth import require_same
from faults.shapes.truth import Truth
from tests.dying import died
from tests.integration.engine.lakehouse import Lakehouse

APPENDED = "are only appended"
"""What a refusal names of queries that do not fold."""

MOST_EPOCHS = 40
"""The most epochs between two changes; a job has few rows."""

POINTS = (
    *(CrashPoint.AFTER_PIN, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT),
    *(CrashPoint.BEFORE_SNAPSHOT_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.BEFORE_STATE_COMMIT),
    *(CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT),
)
"""Where attempts die; an epoch passes some of them."""


class PlayedJob:
    """
    Plays one job.

    :param job: the drawn job.
    :param truth: the rows of the upstream, and the query over them.
    :param engine: the engine of its epochs.
    :param spark: any session, with which the view is read.
    :param folder: an empty folder for its tables.
    :param upstream: the upstream's folder.
    """

    def __init__(
        self, job: GroupJob, truth: Truth, *, engine: SparkEngine, spark: SparkSession, folder: Path, upstream: Path
    ) -> None:
        self.job = job
        self.truth = truth
        self.checks = 0
        self.ended = ""
        """The error that ended the job, as it had to; empty if none did."""
        self._lakehouse = Lakehouse(spark, folder)
        self._lakehouse.upstream_path = str(upstream)
        self._lakehouse.engine = engine
        self._random = random.Random(job.seed)
        self._key = [name for name, _ in truth.key]

    def create(self) -> None:
        """Create the job, or have it refused."""
        try:
            self._failing(self._create)
        except InvalidJobError as error:
            if self.job.of_appended and APPENDED in str(error):
                self._require_no_fold(error)
            elif not self.job.refused_for:
                raise WrongError(f"a query is refused: {error}: {self.job.query}") from error
            if self.job.refused_for not in str(error):
                raise WrongError(f"not named is {self.job.refused_for}: {error}: {self.job.query}") from error
            self.checks += 1
            self.ended = type(error).__name__
            return
        if self.job.refused_for and not self.ended:
            raise WrongError(f"{self.job.refused_for} is accepted: {self.job.query}")

    def _create(self) -> None:
        self._lakehouse.create(**self.job.definition(self._lakehouse.upstream_path, self._key))

    def _require_no_fold(self, refusal: InvalidJobError) -> None:
        """End the case if a query that is refused over rows that are only appended folds over rows that change."""
        of_changing = replace(self.job, of_appended=False, fields={})
        definition = of_changing.definition(self._lakehouse.upstream_path, self._key)
        if self._lakehouse.create(**definition).state_columns:
            raise WrongError(f"a query that folds is refused: {refusal}: {self.job.query}")

    def some_epochs(self) -> None:
        """Run an epoch, or all that are due."""
        self._run(1 if self._random.random() < 0.3 else MOST_EPOCHS)

    def end(self) -> None:
        """Run what is left, damage some views, and have these repaired."""
        self._run(MOST_EPOCHS)
        if self.ended:
            return
        if not self._lakehouse.backfill.store.state().completed:
            raise WrongError(f"I4: not finished: {self.job.query}")
        if self._random.random() < 0.2:
            self._repaired()
        elif self._random.random() < 0.3:
            outcome = verifier.compare_now(self._lakehouse.backfill, self._lakehouse.engine)
            if not outcome.equal:
                raise WrongError(f"the verification finds differences that are none: {outcome}: {self.job.query}")

    def _run(self, most: int) -> None:
        for _ in range(most):
            if self.ended or not self._failing(self._epoch):
                return
        if most == MOST_EPOCHS:
            raise WrongError(f"I4: something is still due after {most} epochs: {self.job.query}")

    def _epoch(self) -> bool:
        """Run an epoch, and compare the view if it is whole; return whether there was anything to do."""
        barrier = self._lakehouse.inject()
        if barrier is None:
            return False
        if self._random.random() < 0.25:
            died(self._random.choice(POINTS), lambda: self._lakehouse.run(barrier))
        commit = self._lakehouse.run(barrier)
        if commit.completed:
            # The offset of rows that are only appended is no version; they are not appended during an epoch.
            to = self.truth.newest if self.job.of_appended else version_of(barrier.upstream.to_offset)
            self._require(to, f"epoch {barrier.epoch}")
        return True

    def _require(self, version: int, when: str) -> None:
        self.checks += 1
        try:
            wanted = self.truth.result(self.truth.rows(version))
            require_same(self._lakehouse.view(), wanted, f"I1: {when} of {self.job.query}")
        except PySparkException as error:
            raise WrongError(f"Spark refuses what the job has computed: {self.job.query}: {error}") from error

    def _repaired(self) -> None:
        """Damage the view, and repair what the verification finds."""
        if (damage := damage_and_ask_for_repair(self._lakehouse, self._random)) is not None:
            self._run(MOST_EPOCHS)
            self._require(self.truth.newest, f"after a repair of {damage}")

    def _failing(self, action: Callable[[], object]) -> object:
        """Do something that fails by a named error if Spark fails on the query, too; the job then ends."""
        try:
            return action()
        except QueryFailedError as error:
            if not self._query_fails():
                raise WrongError(f"the query fails on no row: {error}: {self.job.query}") from error
            self.ended = type(error).__name__
        except BackfillError as error:
            error.add_note(self.job.query)
            raise
        return None

    def _query_fails(self) -> bool:
        """Return whether Spark refuses the query over the rows of any version."""
        return any(fails(partial(self.truth.result, rows)) for rows in self.truth.all_rows())
