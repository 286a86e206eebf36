"""The job of a case: its epochs, what happens to them, and the comparison after each of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.jobs.verification import verifier
from faults.campaign import WrongError
from faults.damaged_view import damage_and_ask_for_repair
from faults.epoch_attempts import EpochAttempts, newest_epoch
from faults.joins.case import ROWS, JoinsCase
from faults.joins.tables import JoinedTable
from faults.joins.truth import JoinsTruth
from faults.shapes.read_rows import read_rows
from faults.shapes.rows import Row
from faults.shapes.truth import Truth
from faults.table_histories import TableRows
from tests.integration.engine.lakehouse import Lakehouse

MOST_EPOCHS = 60
"""The most epochs in a row; a job has few rows."""


class PlayedJob:
    """
    Plays a job.

    :param case: the case.
    :param truth: the rows of its tables, and the query over them.
    :param spark: any session; the engine and the truth get new ones.
    :param folder: an empty folder for the job's tables.
    :param paths: the folders of the tables by name.
    """

    def __init__(
        self, case: JoinsCase, truth: JoinsTruth, *, spark: SparkSession, folder: Path, paths: Mapping[str, Path]
    ) -> None:
        self.case = case
        self.checks = 0
        self.happened: Counter[str] = Counter()
        self._truth = truth
        self._lakehouse = Lakehouse(spark, folder)
        self._lakehouse.engine = SparkEngine(spark.newSession())
        self._paths = paths
        self._random = random.Random(case.seed)
        self._attempts = EpochAttempts(self._lakehouse, self._random, self._lakehouse.inject)

    def create(self) -> None:
        """Create the job."""
        upstreams = {
            table.name: {"path": str(self._paths[table.name]), "key": [column.name for column in table.keys]}
            for table in self.case.tables
        }
        self._lakehouse.job = BackfillJob(
            name="joined",
            upstreams=upstreams,
            materialized_view=self._lakehouse.view_path,
            query=self.case.query.text,
            **self.case.fields,
        )
        self._lakehouse.start_job(creation.create_job, self._lakehouse.backfill)

    @property
    def _lead(self) -> JoinedTable:
        assert self._lakehouse.job is not None
        name = self._lakehouse.job.lead_name
        return next(table for table in self.case.tables if table.name == name)

    def some_epochs(self) -> None:
        """Run an epoch or two, or all that are due."""
        self._run(self._random.choice((1, 1, 2, MOST_EPOCHS)))

    def end(self) -> None:
        """Run what is left, compare the view with the newest rows, and damage some views, which are repaired then."""
        store = self._lakehouse.backfill.store
        mutations.resume_job(store=store, requested_by="tester")
        if self.case.has_chunks:
            mutations.throttle_job(None, store=store, requested_by="tester")
        self._run_to_the_end()
        if not store.state().completed:
            raise WrongError("I4: the view is not finished")
        self._require(self._truth.newest(), "I4: at the end")
        if self._random.random() < 0.25:
            self._repaired()
        elif self._random.random() < 0.4:
            self._verified("at the end")

    def _run_to_the_end(self) -> None:
        if not self._run(MOST_EPOCHS):
            raise WrongError(f"I4: something is still due after {MOST_EPOCHS} epochs")

    def _run(self, most: int) -> bool:
        """Run epochs, and return whether nothing is left to do."""
        for _ in range(most):
            if self._random.random() < 0.2:
                self._steer()
            if not self._epoch():
                return True
        return False

    def _steer(self) -> None:
        """Change a setting of a job that reads history."""
        store = self._lakehouse.backfill.store
        if store.state().completed:
            return
        match self._random.choice(("pause", "throttle", "rescale")):
            case "pause":
                mutations.pause_job(store=store, requested_by="tester")
                self._epoch()
                mutations.resume_job(store=store, requested_by="tester")
            case "throttle" if self.case.has_chunks:
                limit = self._random.choice((5, 9, 20, None))
                mutations.throttle_job(limit, store=store, requested_by="tester")
            case _ if self.case.can_be_shared:
                mutations.rescale_job(self._random.choice((1, 2)), store=store, requested_by="tester")
            case _:
                return
        self.happened["steered"] += 1

    def _epoch(self) -> bool:
        """Run an epoch in some way, and compare the view; return whether there was anything to do."""
        barrier = self._lakehouse.inject()
        if barrier is None:
            return False
        self.happened[self._attempts.run(barrier)] += 1
        self._compare()
        return True

    def _compare(self) -> None:
        """Compare the view with the query over the rows as of the versions that the newest committed epoch pinned."""
        commit, versions = newest_epoch(self._lakehouse)
        lead, rows = self._lead.name, self._truth.rows_at(versions)
        when = f"I1: epoch {commit.epoch}"
        if commit.completed:
            self._require(rows, when)
        elif self.case.query.kind not in ROWS and self.case.has_chunks:
            # Which groups were read is another matter than which rows: a verification knows it.
            self._verified(when)
        elif self.case.fields["visibility"] == "every_epoch" and lead in self.case.query.once:
            self._require({**rows, lead: self._read(rows[lead])}, when)
        elif self._random.random() < 0.3:
            self._verified(when)

    def _read(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """Return the rows of the lead that were read."""
        case, state = self._lead.upstream, self._lakehouse.backfill.store.state()
        names, count = [name for name, _ in case.key], self.case.fields["vnode_count"]
        hashed = Truth(case, self._lakehouse.spark.newSession())
        return tuple(read_rows(rows, state, case=case, vnodes=lambda rows: hashed.vnodes(rows, names, count)))

    def _require(self, rows: TableRows, when: str) -> None:
        self.checks += 1
        self._truth.require(self._lakehouse.view(), rows, when)

    def _verified(self, when: str) -> None:
        self.checks += 1
        outcome = verifier.compare_now(self._lakehouse.backfill, self._lakehouse.engine)
        if not outcome.equal:
            raise WrongError(f"{when}: the verification finds differences that are none: {outcome}")

    def _repaired(self) -> None:
        """Damage the view, and repair what the verification finds."""
        if (damage := damage_and_ask_for_repair(self._lakehouse, self._random)) is None:
            return
        self._run_to_the_end()
        self.happened["repaired"] += 1
        self._require(self._truth.newest(), f"after a repair of {damage}")
