"""Play a case: a view begins, its upstream changes, its definition changes, and after each epoch it is its query."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import (
    AdoptedTableDiffersError,
    InvalidJobError,
    QueryFailedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import changed_query, cut_over, succession
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification.view_differences import compare_waiting
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.epoch_attempts import POINTS, newest_epoch
from faults.groups.truth import require_same
from faults.lives.case import Beginning, Life, Step
from faults.lives.tables import UPSTREAM
from faults.one_view import MOST_EPOCHS, OneViewGame
from faults.shapes.truth import values_of
from faults.shapes.writers import newest_version
from tests.dying import died
from tests.integration.engine.lakehouse import TESTER
from tests.integration.engine.succeeding import step as step_of_rebuild

Seen = tuple[list[str], list[str]]
"""What a reader of one version of the view sees: its columns, and its rows."""


class Game(OneViewGame):
    """
    Plays one case.

    :param life: the case.
    :param spark: any session; the upstream's writer, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, life: Life, spark: SparkSession, folder: Path) -> None:
        super().__init__(life.tables, life.seed, spark, folder)
        self.life = life
        self._fields: dict[str, Any] = dict(life.fields)
        self._query = life.query
        self._incarnation = ""
        self._growing: str | None = None
        self._pinned: dict[int, str] = {}
        self._read_up_to = -1
        self._seen: Seen | None = None
        self._taken_over: Barrier | None = None
        """The barrier of the first epoch after a rebuild took the view's place."""

    def play(self) -> None:
        """Play the case to its end; raise what is wrong."""
        self._tables.make()
        self._tables.change(self.life.changes[0])
        try:
            self._begin()
            for step in self.life.steps:
                self._tables.change(step.changes)
                self._some_epochs()
                self._change_definition(step)
                self._some_epochs()
            self._end()
        except QueryFailedError as error:
            self._tables.require_failing(self.life.queries, error)

    def _define(self, query: str) -> Backfill:
        """Write a definition into the job's file."""
        fields = {"query": query, **self._tables.definition, **self._fields}
        self._lake.job = BackfillJob(name="life", materialized_view=self._lake.view_path, **fields)
        return self._lake.backfill

    # How a view begins.

    def _begin(self) -> None:
        if self.life.beginning.is_adopted:
            self._adopt()
        else:
            self._tables.change(self.life.changes[1])
            self._created()
        self._all_epochs()
        self._incarnation = self._lake.backfill.settings().incarnation
        # Readers see whole views only, from here on.
        self._read_up_to = newest_version(Path(self._lake.view_path))
        self._seen = self._version(self._read_up_to)

    def _adopt(self) -> None:
        """Make a table as another tool does, let the upstream go on, and make the table the job's view."""
        in_place = self.life.beginning is Beginning.ADOPTED_IN_PLACE
        path = self._lake.view_path if in_place else f"{self._lake.folder}/nightly"
        as_of = self._tables.newest
        self._make_table(path, self._tables.result(self.life.query, as_of))
        self._tables.change(self.life.changes[1])
        self._fields |= {"backfill_from": {"path": path}, "as_of": as_of[UPSTREAM]}
        if self.life.is_damaged and self._damage(path):
            try:
                self._created()
            except AdoptedTableDiffersError:
                self.happened["refused"] += 1
            else:
                raise WrongError("I6: a table that differs from its query is adopted")
            self._fields["backfill_from"]["repair"] = True
        self._created()

    def _make_table(self, path: str, rows: DataFrame) -> None:
        if self._random.random() < 0.5:
            found = rows.toArrow()
            # A table whose columns must not be null is refused for good reason.
            fields = [field.with_nullable(nullable=True) for field in found.schema]
            write_deltalake(path, pa.Table.from_arrays(found.columns, schema=pa.schema(fields)))
        else:
            rows.write.format("delta").save(path)

    def _damage(self, path: str) -> bool:
        """Remove a row of a table, or all rows, if it has any, as a job with an error does."""
        rows = self._tables.session.read.format("delta").load(path)
        there = rows.count()
        if there:
            kept = rows.limit(self._random.choice((0, there - 1)))
            kept.write.format("delta").mode("overwrite").save(path)
        return there > 0

    def _created(self) -> None:
        self._create(self._define(self.life.query))

    # Epochs.

    def _inject(self) -> Barrier | None:
        """Pin the next barrier, and remember which query it is of."""
        self._see()
        barrier = self._lake.inject()
        if barrier is not None:
            if self._growing is not None and barrier.incarnation != self._incarnation:
                self._query, self._growing, self._incarnation = self._growing, None, barrier.incarnation
                self.happened["rebuilt"] += 1
                self._taken_over = barrier
            self._pinned.setdefault(barrier.epoch, self._query)
        return barrier

    def _epoch(self) -> bool:
        """Run an epoch in some way, and compare the view if it is whole; return whether there was anything to do."""
        barrier = self._inject()
        if barrier is None:
            return False
        self.happened[self._attempts.run(barrier)] += 1
        commit, versions = newest_epoch(self._lake)
        if commit.completed:
            self._require(self._pinned[commit.epoch], versions, f"I1: epoch {commit.epoch}")
            # As the last task of a DAG run does; a view that took another's place is finished anew.
            protocol.finish_job(store=self._lake.backfill.store, requested_by="tester")
        self._see()
        return True

    def _require(self, query: str, versions: Mapping[str, int], when: str) -> None:
        self.checks += 1
        try:
            require_same(self._lake.view(), self._expected(query, versions), f"{when} of {query}")
        except PySparkException as error:
            raise WrongError(f"Spark refuses what the job has computed: {query}: {error}") from error

    def _expected(self, query: str, versions: Mapping[str, int]) -> DataFrame:
        return self._tables.result(query, versions)

    # What readers see.

    def _see(self) -> None:
        """
        Read each version of a finished view that came: it is the one before, or the one after all of them.

        If a rebuild takes the view's place, the epoch's changes come after that, in another commit.
        """
        newest = newest_version(Path(self._lake.view_path))
        if self._seen is None or newest == self._read_up_to:
            return
        last = self._version(newest)
        for version in range(self._read_up_to + 1, newest):
            if (seen := self._version(version)) in (self._seen, last):
                continue
            if self._taken_over is None:
                raise WrongError(f"I7: version {version} is neither the view before nor the one after: {seen!a}")
            begin = {window.relation: version_of(window.from_offset) for window in self._taken_over.windows}
            wanted = self._expected(self._query, begin)
            require_same(self._read(version), wanted, f"I7: version {version}, which takes the view's place")
        self._read_up_to, self._seen, self._taken_over = newest, last, None

    def _read(self, version: int) -> DataFrame:
        return self._lake.spark.read.format("delta").option("versionAsOf", version).load(self._lake.view_path)

    def _version(self, version: int) -> Seen:
        read = self._read(version)
        shown = [name for name in read.columns if not name.startswith("__")]
        return shown, sorted(map(repr, values_of(read.select(*map(quote, shown)))))

    # Other definitions.

    def _change_definition(self, step: Step) -> None:
        """Propose another definition, with a rebuild beside the view where it takes one."""
        self._fields |= step.fields
        backfill = self._define(step.query)
        try:
            settings = self._lake.start_job(changed_query.change_query, backfill)
        except InvalidJobError as error:
            if "rebuild" not in str(error):
                error.add_note(f"proposed: {step.query}")
                raise WrongError(f"a change is refused: {error}") from error
            self._rebuild(step)
            return
        self.happened["proposed" if settings.proposed else "changed"] += 1
        if settings.proposed is None:
            self._growing, self._query = None, step.query
        elif step.is_approved:
            self._approve()
            self._query = step.query

    def _rebuild(self, step: Step) -> None:
        """Let a rebuild grow beside the view, whose epochs go on."""
        backfill = self._lake.backfill
        grow = succession.grow_successor
        if self._random.random() < 0.4:
            died(self._random.choice(POINTS), lambda: self._lake.start_job(grow, backfill))
        self._lake.start_job(grow, backfill)
        self._growing = step.query
        for _ in range(MOST_EPOCHS):
            if self._random.random() < 0.3:
                died(self._random.choice(POINTS), lambda: step_of_rebuild(self._lake))
            if self._random.random() < 0.3 and self._lake.backfill.successor is not None:
                self._epoch()
            if self._lake.backfill.successor is None or not step_of_rebuild(self._lake):
                break
        store = self._lake.backfill.store
        if step.is_approved and cut_over.waiting_of(store, store.settings()) is not None:
            self._approve()

    def _approve(self) -> None:
        """Look at the difference, hold its count against the view's rows, and approve it."""
        shown = compare_waiting(self._lake.backfill, comparer=self._lake.engine.view_comparer, requester=TESTER)
        counted = shown.recorded.rows.rows_before
        there = self._lake.view().count()
        if counted != there:
            raise WrongError(f"the difference counts {counted} rows of the view that serves, which has {there}")
        cut_over.approve(shown.recorded, store=self._lake.backfill.store, approved_by="vera")
        self.happened["approved"] += 1

    def _end(self) -> None:
        """Run what is left; the view is the last definition's, and a verification agrees."""
        for _ in range(MOST_EPOCHS):
            grew = self._lake.backfill.successor is not None and step_of_rebuild(self._lake)
            if not self._epoch() and not grew:
                break
        else:
            raise WrongError("I4: a rebuild never takes the view's place")
        self._require(self.life.queries[-1], self._tables.newest, "I4: at the end")
        self._require_verified()
