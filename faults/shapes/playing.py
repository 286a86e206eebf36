"""Play a case: make its upstream and job, change the upstream between the job's epochs, and check I1, I2 and I4."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.verification.verifier import compare_now
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import Outcome, WrongError
from faults.failing_rows import fails
from faults.shapes import refusals
from faults.shapes.case import Case, Gap
from faults.shapes.file_writers import ConvertWriter, LogWriter
from faults.shapes.read_rows import key_of, key_order, read_rows
from faults.shapes.rows import Row, Rows
from faults.shapes.truth import Truth
from faults.shapes.writers import DeltaRsWriter, SparkWriter, Writer, newest_version
from tests.integration.engine.lakehouse import TESTER, Lakehouse

UNWRITABLE = "unwritable"
"""The result of a case whose own writer refuses the table; this package was not involved."""

UNANSWERABLE = "unanswerable"
"""The result of a case whose query Spark refuses over the expected rows."""


class UnwritableError(Exception):
    """The upstream's writer refuses the table."""


class Game:
    """
    Plays one case.

    :param case: the drawn case.
    :param spark: any session; writer, engine and truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, case: Case, spark: SparkSession, folder: Path) -> None:
        self.case = case
        self.lakehouse = Lakehouse(spark, folder)
        self.truth = Truth(case, spark.newSession())
        self.epochs = 0
        self._usual = SparkEngine(spark.newSession())
        self._spark = spark
        self._rows = Rows(case)
        self._now = self._rows.begin(case.rows)
        self._order, self._key = key_order(case), key_of(case)
        self._writer = self._writer_of(Path(self.lakehouse.upstream_path))

    def play(self) -> Outcome:
        """Play to a right or refused end; raise anything else."""
        began = False
        try:
            self.lakehouse.define(**self._job())
            self._make()
            self._use({})
            self._create()
            began = True
            self._run()
        except UnwritableError as error:
            return self._ended(UNWRITABLE, str(error))
        except BackfillError as error:
            refusals.require_true(error, self.case, began=began, fails=self._query_fails)
            return self._ended(type(error).__name__, str(error))
        except PySparkException as error:
            # Only the truth's query may raise this; the package raises named errors.
            if not self._query_fails():
                raise
            return self._ended(UNANSWERABLE, str(error))
        return self._ended("right", "")

    def _ended(self, result: str, why: str) -> Outcome:
        first = why.strip().partition("\n")[0].encode("ascii", "backslashreplace").decode()[:300]
        return Outcome(result, max(self.epochs, 1), " | ".join(filter(None, (first, self.case.summary()))))

    def _writer_of(self, path: Path) -> Writer:
        match self.case.writer:
            case "delta-rs":
                return DeltaRsWriter(self.case, path)
            case "log":
                return LogWriter(self.case, path)
            case "convert":
                return ConvertWriter(self.case, self._spark.newSession(), path)
            case _:
                return SparkWriter(self.case, self._spark.newSession(), path)

    def _job(self) -> dict[str, Any]:
        job = {**self.case.job, "key": [{"column": name, "descending": down} for name, down in self.case.key]}
        if distribution := job.pop("distribution_key", None):
            job["upstream"] = {
                "path": self.lakehouse.upstream_path,
                "key": job.pop("key"),
                "distribution_key": distribution,
            }
        row = job.pop("restrict_after_row", None)
        if row is not None:
            after = self._in_order()[min(row, len(self._now) - 1)]
            encoded = self._order.encode(self._key(after)[:1])
            assert encoded is not None
            job["restrict_to"] = {"keys": {"after": list(encoded)}}
        return job

    def _make(self) -> None:
        rows = self._in_order() if self.case.in_order else list(self._now)
        size = -(-len(rows) // self.case.files)
        try:
            self._writer.make([rows[i : i + size] for i in range(0, len(rows), size)])
        except (PySparkException, DeltaError, pa.ArrowException) as error:
            raise UnwritableError(str(error)) from error
        self._remember()

    def _change(self, gap: Gap) -> None:
        for kind in gap.changes:
            change = self._rows.change(kind, self._now)
            if not change.pairs and kind != "rewrite":
                continue
            try:
                self._writer.write(kind, change)
            except (PySparkException, DeltaError, pa.ArrowException) as error:
                raise UnwritableError(str(error)) from error
            self._now = change.after
            self._remember()
        for statement in gap.alters:
            assert isinstance(self._writer, SparkWriter)
            try:
                self._writer.alter(statement)
            except PySparkException as error:
                raise UnwritableError(str(error)) from error

    def _remember(self) -> None:
        self.truth.record(newest_version(Path(self.lakehouse.upstream_path)), self._now)

    def _use(self, settings: dict[str, str]) -> None:
        """Give the engine a session with these settings, as a cluster's administrator would."""
        if not settings:
            self.lakehouse.engine = self._usual
            return
        session = self._spark.newSession()
        for name, value in settings.items():
            session.conf.set(name, value)
        self.lakehouse.engine = SparkEngine(session)

    def _create(self) -> None:
        backfill = self.lakehouse.backfill
        creation.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=lambda: self.lakehouse.engine,
            requested_by="tester",
        )

    def _run(self) -> None:
        limit = self.case.job["rate_limit"] or len(self._now)
        most = 3 * (-(-len(self._now) // limit)) + 8
        finished = False
        for gap in self.case.gaps:
            finished = self._epoch(gap)
            if finished:
                break
        while not finished:
            if self.epochs > most:
                raise WrongError(f"I4: not finished after {self.epochs} epochs")
            finished = self._epoch(Gap())
        for gap in self.case.beyond:
            self._epoch(gap)
        self._require_end()

    def _epoch(self, gap: Gap) -> bool:
        """Make the changes, run an epoch, and check the invariants; return whether the view is finished."""
        self._change(gap)
        self._use(dict(gap.settings))
        backfill = self.lakehouse.backfill
        before = backfill.store.state()
        barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER).barrier
        if barrier is None:
            if not before.completed:
                raise WrongError("I4: no barrier is injected, but the view is not finished")
            return True
        commit = self.lakehouse.run(barrier)
        self.epochs += 1
        self._require(barrier, commit, before)
        return commit.completed

    def _require(self, barrier: Barrier, commit: EpochCommit, before: BackfillState) -> None:
        store = self.lakehouse.backfill.store
        after = store.state()
        if self.case.job["strategy"] == "snapshot" and not before.completed:
            self._require_files(barrier, commit, before, after)
            return
        rows = self.truth.rows(version_of(barrier.chunk_offset))
        read_before, read_after = self._read(rows, before), self._read(rows, after)
        new = len(read_after) - len(read_before)
        when = f"epoch {barrier.epoch}"
        left = len(self._of_job(rows)) - len(read_before)
        if left and not commit.snapshot_read_row_count:
            raise WrongError(f"I4: {when} read 0 rows although {left} were left")
        if self.case.lies and not commit.completed:
            return
        if commit.snapshot_read_row_count != new:
            raise WrongError(f"I2: {when} counted {commit.snapshot_read_row_count} rows but read {new}")
        limit = barrier.rate_limit
        if limit is not None and new > 2 * limit + self.case.job["vnode_count"]:
            raise WrongError(f"I4: {when} read {new} rows under a rate limit of {limit}")
        if commit.completed or self.case.job["visibility"] == "every_epoch":
            expected = self._read(self.truth.rows(version_of(barrier.upstream.to_offset)), after)
            self.truth.require(self.lakehouse.view(), expected, f"I1: {when}")

    def _require_files(
        self, barrier: Barrier, commit: EpochCommit, before: BackfillState, after: BackfillState
    ) -> None:
        """Check an epoch that reads files, whose positions say nothing about keys, or replays the log."""
        when = f"epoch {barrier.epoch}"
        if after == before and not barrier.has_window:
            raise WrongError(f"I4: {when} went no further")
        settings = self.lakehouse.backfill.settings()
        pinned, scan = self._of_job(self.truth.rows(version_of(settings.first_offset))), settings.scan
        is_read = scan.read(after) == (EVERYTHING,)
        if is_read and rows_read(scan, after) != len(pinned):
            raise WrongError(f"I2: {when} leaves {rows_read(scan, after)} rows read of {len(pinned)}")
        if rows_read(scan, after) - rows_read(scan, before) != commit.snapshot_read_row_count:
            raise WrongError(f"I2: {when} counted {commit.snapshot_read_row_count} rows, and the state another number")
        if is_read:
            expected = self._of_job(self.truth.rows(version_of(barrier.upstream.to_offset)))
            self.truth.require(self.lakehouse.view(), expected, f"I1: {when}")
        elif self.case.verified and not compare_now(self.lakehouse.backfill, self.lakehouse.engine).equal:
            raise WrongError(f"I1: the verification finds differences after {when}")

    def _require_end(self) -> None:
        """Check a finished view, its status and its verification."""
        backfill = self.lakehouse.backfill
        self.truth.require(self.lakehouse.view(), self._of_job(self._now), "I1: at the end")
        status = backfill.status()
        if not backfill.store.state().completed or status.progress != 1:
            raise WrongError(f"the status of a finished view has progress {status.progress}")
        if self.case.verified:
            outcome = compare_now(backfill, self.lakehouse.engine)
            if not outcome.equal:
                raise WrongError("the verification finds differences in a view that has none")

    def _read(self, rows: Sequence[Row], state: BackfillState) -> list[Row]:
        """Return the job's rows that were read, according to the state."""
        return read_rows(self._of_job(rows), state, case=self.case, vnodes=self._vnodes)

    def _of_job(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows within the job's restriction."""
        job = self.lakehouse.backfill.job
        bounds = job.restrict_to.keys
        within = KeyRange(self._order.decode(bounds.after), self._order.decode(bounds.up_to))
        found = [row for row in rows if within.contains(self._key(row), self._order)]
        if not job.restrict_to.vnodes:
            return found
        return [row for row, vnode in zip(found, self._vnodes(found), strict=True) if vnode in job.vnodes]

    def _vnodes(self, rows: Sequence[Row]) -> list[int]:
        job = self.lakehouse.backfill.job
        return self.truth.vnodes(rows, job.upstream.distribution_key, job.vnode_count)

    def _in_order(self) -> list[Row]:
        return sorted(self._now, key=lambda row: self._order.sort_key(self._key(row)))

    def _query_fails(self) -> bool:
        """Return whether Spark refuses the query over the rows of any version."""
        return any(fails(partial(self.truth.result, rows)) for rows in self.truth.all_rows())
