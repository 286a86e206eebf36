"""The run: repeat a write, an epoch and a sample."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.status.compaction import CompactionPolicy
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.maintenance import compaction
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.state import control_table
from bench.comparison.contestants import REQUESTER
from bench.comparison.race import DifferentResultError, fingerprint
from bench.measuring import create, java_process, measure
from bench.soak.sample import LOG, Sample, files_of, memory_of
from bench.soak.writer import RETENTION, Writer, writer

SHARE_THAT_READS = 0.4
"""The share of epochs that read history; the others keep the view fresh."""

THROTTLED_EVERY = 10
VERIFIED_EVERY = 50
VACUUM_EVERY = 50
KEPT_VERSIONS = 100
"""The number of versions of the view's log that count as younger than its retention."""

_DAY = 86_400
_KEPT_NO_LONGER = "interval 0 seconds"
# A verification may read a version that is no longer the newest.
_VIEW = {"delta.enableDeletionVectors": "true", **RETENTION}


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """
    The size of a run.

    :param epochs: the number of epochs.
    :param rows: the number of rows of the upstream.
    :param strategy: the job's strategy.
    """

    epochs: int
    rows: int
    strategy: str = "no_shuffle"

    @property
    def block(self) -> int:
        """The number of epochs in a block."""
        return max(self.epochs // 10, 1)

    @property
    def chunk(self) -> int:
        """The number of rows of history that an epoch reads."""
        return -(-self.rows // max(int(self.epochs * SHARE_THAT_READS), 1))

    def samples(self, spark: SparkSession, folder: Path) -> Iterator[Sample]:
        """
        Run all epochs; the view must be right at the end.

        :raises DifferentResultError: if it is not.
        """
        # As if more than the retention passed between any two epochs.
        control_table.RETENTION = _KEPT_NO_LONGER
        engine, upstream = SparkEngine(spark), str(folder / "orders")
        with writer(upstream, self.rows) as writing:
            backfill = create(
                engine,
                folder,
                "soak",
                upstream,
                strategy=self.strategy,
                rate_limit=self.chunk,
                table_properties=_VIEW,
            )
            for epoch in range(1, self.epochs + 1):
                yield self._epoch(spark, engine, backfill, writing, epoch)
        _require_right(spark, backfill)

    def _epoch(
        self, spark: SparkSession, engine: SparkEngine, backfill: Backfill, writing: Writer, epoch: int
    ) -> Sample:
        writing.write()
        if epoch % THROTTLED_EVERY == 0:
            # The settings should also have a history.
            limit = self.chunk + epoch // THROTTLED_EVERY % 2
            mutations.throttle_job(limit, store=backfill.store, requested_by=str(REQUESTER))
        measured = measure(engine, backfill, _task_run(epoch))
        assert measured is not None
        if epoch % VERIFIED_EVERY == 0:
            verifier.require_equal(backfill, verifier.verify_job(backfill, engine=lambda: engine, requester=REQUESTER))
        started = time.perf_counter()
        compaction.compact_job(backfill, engine=lambda: engine, policy=CompactionPolicy())
        compact_seconds = time.perf_counter() - started
        view = Path(backfill.job.materialized_view)
        _let_days_pass(view)
        sample = Sample(
            epoch=epoch,
            reads=measured.rows > 0,
            inject_seconds=measured.inject_seconds,
            run_seconds=measured.run_seconds,
            compact_seconds=compact_seconds,
            python=memory_of(os.getpid()),
            java=memory_of(java_process()),
            live_bytes=_live_bytes(spark) if epoch % self.block == 0 else None,
            tables={
                table.name: files_of(table)
                for table in (view, *Path(backfill.job.state).iterdir())
                if (table / LOG).exists()
            },
        )
        if epoch % VACUUM_EVERY == 0:
            # The sample comes before the VACUUM, so it has the highest number of files.
            spark.sql(f"VACUUM delta.`{view}`")
        return sample


def _task_run(number: int) -> Requester:
    """Return the hourly task run that runs an epoch."""
    hour = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=number)
    return Requester(dag_id="refresh_soak", task_id="run_epoch", run_id=f"scheduled__{hour.isoformat()}")


def _let_days_pass(table: Path) -> None:
    """Set the times of old commits' files back by days, so that Delta removes them by itself."""
    versions = {file: int(file.name[:20]) for file in (table / LOG).iterdir() if file.name[:20].isdecimal()}
    newest = max(versions.values())
    for file, version in versions.items():
        written = file.stat().st_mtime
        if version <= newest - KEPT_VERSIONS and time.time() - written < _DAY:
            os.utime(file, (written - 2 * _DAY, written - 2 * _DAY))


def _live_bytes(spark: SparkSession) -> int:
    """Return the bytes in Java's heap after a garbage collection."""
    jvm = spark._jvm  # noqa: SLF001 - there is no public way
    assert jvm is not None
    jvm.java.lang.System.gc()
    runtime = jvm.java.lang.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _require_right(spark: SparkSession, backfill: Backfill) -> None:
    job = backfill.job
    query = job.query.replace("FROM upstream", f"FROM delta.`{job.upstream.location}`")
    expected = fingerprint(spark.sql(query))
    found = fingerprint(spark.read.format("delta").load(job.materialized_view))
    if found != expected:
        raise DifferentResultError(f"after {backfill.store.last_epoch()} epochs: {found} instead of {expected}")
