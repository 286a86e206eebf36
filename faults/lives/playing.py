"""Play a case: a view begins, its upstream changes, its definition changes, and after each epoch it is its query."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import changed_query, cut_over, succession
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.jobs.verification.view_differences import compare_waiting
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.epoch_attempts import POINTS, EpochAttempts
from faults.groups.rows import MovingRows
from faults.groups.tables import values_of
from faults.groups.truth import require_same
from faults.lives.case import Beginning, Life, Step
from faults.shapes.rows import Row
from faults.shapes.truth import Truth
from faults.shapes.truth import values_of as plain_values
from faults.shapes.writers import DeltaRsWriter, SparkWriter, Writer, newest_version
from tests.dying import died
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.succeeding import step as step_of_rebuild

MOST_EPOCHS = 40
"""The most epochs between two changes; a job has few rows."""

Seen = tuple[list[str], list[str]]
"""What a reader of one version of the view sees: its columns, and its rows."""


class QueryFails(Exception):  # noqa: N818 - it is no error of the package
    """Spark fails on the query over these rows, too, so that nothing follows."""


class Game:
    """
    Plays one case.

    :param life: the case.
    :param spark: any session; the upstream's writer, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, life: Life, spark: SparkSession, folder: Path) -> None:
        self.life = life
        self.checks = 0
        self.happened: Counter[str] = Counter()
        self._random = random.Random(life.seed)
        self._rows = MovingRows(life.upstream, values_of(life.table))
        self._now: tuple[Row, ...] = self._rows.begin(life.upstream.rows)
        self._path = folder / "upstream"
        self._writer: Writer = (
            DeltaRsWriter(life.upstream, self._path)
            if life.upstream.writer == "delta-rs"
            else SparkWriter(life.upstream, spark.newSession(), self._path)
        )
        self._truths = spark.newSession()
        self._history = Truth(life.upstream, self._truths)
        self._lake = Lakehouse(spark, folder / "job")
        self._lake.upstream_path = str(self._path)
        self._lake.engine = SparkEngine(spark.newSession())
        self._attempts = EpochAttempts(self._lake, self._random, self._inject)
        self._fields: dict[str, Any] = dict(life.fields)
        self._query = life.query
        self._incarnation = ""
        self._growing: str | None = None
        self._pinned: dict[int, str] = {}
        self._read_up_to = -1
        self._seen: Seen | None = None

    def play(self) -> None:
        """Play the case to its end; raise what is wrong."""
        self._make()
        try:
            self._begin()
            for step in self.life.steps:
                self._change_upstream(step.changes)
                self._some_epochs()
                self._change_definition(step)
                self._some_epochs()
            self._end()
        except QueryFailedError as error:
            if not self._any_query_fails():
                raise WrongError(f"the query fails on no row: {error}") from error
            raise QueryFails from error

    def _make(self) -> None:
        rows = list(self._now)
        size = -(-len(rows) // self.life.upstream.files) or 1
        self._writer.make([rows[start : start + size] for start in range(0, len(rows), size)] or [[]])
        self._remember()
        self._change_upstream(self.life.upstream.gaps[0].changes)

    def _remember(self) -> None:
        self._history.record(newest_version(self._path), self._now)

    def _change_upstream(self, kinds: tuple[str, ...]) -> None:
        for kind in kinds:
            change = self._rows.change(kind, self._now)
            if change.pairs or kind == "rewrite":
                self._writer.write(kind, change)
                self._now = change.after
                self._remember()

    # How a view begins.

    def _begin(self) -> None:
        if self.life.beginning.is_adopted:
            self._adopt()
        else:
            self._change_upstream(self.life.upstream.gaps[1].changes)
            self._created()
        self._all_epochs()
        protocol.finish_job(store=self._lake.backfill.store, requested_by="tester")
        self._incarnation = self._lake.backfill.settings().incarnation
        # A reader sees whole views only, from here on.
        self._see()

    def _adopt(self) -> None:
        """Make a table as another tool does, let the upstream go on, and make the table the job's view."""
        in_place = self.life.beginning is Beginning.ADOPTED_IN_PLACE
        path = self._lake.view_path if in_place else f"{self._lake.folder}/nightly"
        as_of = newest_version(self._path)
        self._make_table(path, self._result(self.life.query, as_of))
        self._change_upstream(self.life.upstream.gaps[1].changes)
        self._fields |= {"backfill_from": {"path": path}, "as_of": as_of}
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
            write_deltalake(path, rows.toArrow())
        else:
            rows.write.format("delta").save(path)

    def _damage(self, path: str) -> bool:
        """Change a row of a table, if it has one, as a job with an error does."""
        table = f"delta.{quote(path)}"
        one = self._truths.table(table).limit(1)
        if not one.take(1):
            return False
        match self._random.choice(("all gone", "once more")):
            case "all gone":
                self._truths.sql(f"DELETE FROM {table}")
            case _:
                self._truths.createDataFrame(one.toArrow()).write.format("delta").mode("append").save(path)
        return True

    def _created(self) -> None:
        """Create the job; attempts die at times."""
        define = {"query": self.life.query, "key": [name for name, _ in self.life.upstream.key], **self._fields}
        if self._random.random() < 0.3:
            died(self._random.choice(POINTS), lambda: self._lake.create(**define))
        self._lake.create(**define)

    # Epochs.

    def _some_epochs(self) -> None:
        for _ in range(self._random.choice((0, 1, 1, 2, MOST_EPOCHS))):
            if not self._epoch():
                return

    def _all_epochs(self) -> None:
        for _ in range(MOST_EPOCHS):
            if not self._epoch():
                return
        raise WrongError(f"I4: something is still due after {MOST_EPOCHS} epochs")

    def _inject(self) -> Barrier | None:
        """Pin the next barrier, and remember which query it is of."""
        barrier = self._lake.inject()
        if barrier is not None:
            if self._growing is not None and barrier.incarnation != self._incarnation:
                self._query, self._growing, self._incarnation = self._growing, None, barrier.incarnation
                self.happened["rebuilt"] += 1
            self._pinned.setdefault(barrier.epoch, self._query)
        return barrier

    def _epoch(self) -> bool:
        """Run an epoch in some way, and compare the view if it is whole; return whether there was anything to do."""
        barrier = self._inject()
        if barrier is None:
            return False
        self.happened[self._attempts.run(barrier)] += 1
        commit = self._lake.backfill.store.commits()[-1]
        newest = next(one for one in self._lake.barriers() if one.epoch == commit.epoch)
        if commit.completed:
            query, version = self._pinned[newest.epoch], version_of(newest.upstream.to_offset)
            self._require(self._lake.view(), query, version, f"I1: epoch {newest.epoch}")
        if self._seen is not None:
            self._see()
        return True

    def _require(self, view: DataFrame, query: str, version: int, when: str) -> None:
        self.checks += 1
        try:
            require_same(view, self._result(query, version), f"{when} of {query}")
        except PySparkException as error:
            raise WrongError(f"Spark refuses what the job has computed: {query}: {error}") from error

    def _result(self, query: str, version: int) -> DataFrame:
        asked = Truth(replace(self.life.upstream, job={"query": query}), self._truths)
        return asked.result(self._history.rows(version))

    def _any_query_fails(self) -> bool:
        """Return whether Spark fails on any query of the view over the rows of any version."""
        for query in (self.life.query, *(step.query for step in self.life.steps)):
            asked = Truth(replace(self.life.upstream, job={"query": query}), self._truths)
            for rows in self._history.all_rows():
                try:
                    asked.result(rows).collect()
                except PySparkException:
                    return True
        return False

    # What readers see.

    def _see(self) -> None:
        """Read each version of the view that came: it is the one before, or the one after all of them."""
        newest = newest_version(Path(self._lake.view_path))
        last = self._version(newest)
        for version in range(self._read_up_to + 1, newest):
            if self._seen is not None and (seen := self._version(version)) not in (self._seen, last):
                raise WrongError(f"I7: version {version} is neither the view before nor the one after: {seen!a}")
        self._read_up_to, self._seen = newest, last

    def _version(self, version: int) -> Seen:
        read = self._lake.spark.read.format("delta").option("versionAsOf", version).load(self._lake.view_path)
        shown = [name for name in read.columns if not name.startswith("__")]
        return shown, sorted(map(repr, plain_values(read.select(*map(quote, shown)))))

    # Other definitions.

    def _change_definition(self, step: Step) -> None:
        """Propose another definition, with a rebuild beside the view where it takes one."""
        before = self._lake.job
        self._fields |= step.fields
        key = [name for name, _ in self.life.upstream.key]
        backfill = self._lake.define(query=step.query, key=key, **self._fields)
        try:
            settings = self._lake.start_job(changed_query.change_query, backfill)
        except InvalidJobError as error:
            if "rebuild" not in str(error):
                error.add_note(f"proposed: {step.query}")
                raise WrongError(f"a change is refused: {error}") from error
            self._rebuild(step)
            if self._growing is not None and not step.is_approved:
                self._lake.job = before
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
        if self._lake.backfill.settings().successor is None or not self._waits():
            return
        if step.is_approved:
            self._approve()

    def _waits(self) -> bool:
        store = self._lake.backfill.store
        return cut_over.waiting_of(store, store.settings()) is not None

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
        wanted = self.life.steps[-1].query
        self._require(self._lake.view(), wanted, self._history.newest, "I4: at the end")
        outcome = verifier.compare_now(self._lake.backfill, self._lake.engine)
        if not outcome.equal:
            raise WrongError(f"the verification finds differences that are none: {outcome}")
