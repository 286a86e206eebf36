"""
Keep a finished view fresh: an epoch of this package against a MERGE of the same changes, written by hand.

Both views are equal at first, both upstreams are replays of the same commits, and they take turns. The engine is warm.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.comparison.contestants import REQUESTER, SKIPPING, JobVariant
from bench.comparison.peers import changes_of, make_view, merge_changes
from bench.comparison.race import fingerprint
from bench.comparison.stage import Stage
from bench.comparison.workload import Workload, make_history
from bench.measuring import save_figures, session

ROWS = int(os.environ.get("BENCH_ROWS", "4000000"))
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "10"))
WRITES = ("chunk", "changes", "arrangement")
"""The phases of an epoch in which Spark writes."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """
    The refresh of two views after one commit of the upstream.

    :param epoch_seconds: the time of the epoch, including injection and commit.
    :param other_seconds: the part of that without Spark's writes to tables: pinning, netting the changes, the commit.
    :param merge_seconds: the time of the MERGE.
    """

    epoch_seconds: float
    other_seconds: float
    merge_seconds: float


def main(console: Console) -> None:
    """Refresh both views after each commit."""
    workload = Workload("ordered", "updates", 1, rows=ROWS, epochs=EPOCHS)
    spark = session()
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder = Path(name)
        console.print(f"making {workload.rows:,} rows and {workload.epochs} commits …")
        make_history(spark, folder / "history", workload)
        refreshes = list(_refreshes(spark, folder, workload, SKIPPING))
    spark.stop()
    # The first commits warm up the session.
    counted = refreshes[2:]
    ratio = statistics.median(refresh.epoch_seconds / refresh.merge_seconds for refresh in counted)
    table = Table("median of", "seconds", title=f"{workload.rows:,} rows, {workload.changed_rows:,} updated per commit")
    for figure in ("epoch_seconds", "other_seconds", "merge_seconds"):
        table.add_row(figure, f"{statistics.median(getattr(refresh, figure) for refresh in counted):.2f}")
    table.add_row("epoch / MERGE", f"{ratio:.2f}")
    console.print(table)
    console.print(f"every figure: {save_figures('freshness', [asdict(refresh) for refresh in counted])}")


def _refreshes(spark: SparkSession, folder: Path, workload: Workload, variant: JobVariant) -> list[Refresh]:
    ours, theirs = (Stage(spark, workload, folder / "history", folder / name) for name in ("ours", "theirs"))
    engine = SparkEngine(spark)
    backfill = JobVariant(variant.name, {**variant.fields, "rate_limit": None}).backfill(ours)
    creation.create_job(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=lambda: engine,
        requested_by=str(REQUESTER),
    )
    _epoch(backfill, engine)
    make_view(spark, theirs.upstream, theirs.view)
    merge_changes(changes_of(spark, theirs.upstream, 0), theirs.view)
    refreshes = []
    for version in range(1, workload.epochs + 1):
        ours.commit()
        theirs.commit()
        steps: list[Callable[[], object]] = [
            lambda: _epoch(backfill, engine),
            lambda version=version: merge_changes(changes_of(spark, theirs.upstream, version), theirs.view),  # type: ignore[misc]
        ]
        answers = [_timed(step) for step in (steps if version % 2 else steps[::-1])]
        (epoch_seconds, commit), (merge_seconds, _) = answers if version % 2 else answers[::-1]
        assert isinstance(commit, EpochCommit)
        writes = sum(commit.seconds.get(phase, 0.0) for phase in WRITES)
        refreshes.append(Refresh(epoch_seconds, epoch_seconds - writes, merge_seconds))
    views = [fingerprint(spark.read.format("delta").load(str(stage.view))) for stage in (ours, theirs)]
    assert views[0] == views[1], views
    return refreshes


def _epoch(backfill: Backfill, engine: SparkEngine) -> EpochCommit:
    barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=REQUESTER).barrier
    assert barrier is not None
    return protocol.run_epoch(barrier, store=backfill.store, engine=engine)


def _timed(step: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    answer = step()
    return time.perf_counter() - started, answer
