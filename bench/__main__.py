"""
What an epoch costs as the upstream grows: ``make bench``.

Two upstreams, one ten times the other, are backfilled side by side with the same rate limit, epoch by epoch in turns,
so that a machine whose speed drifts slows both. Printed are medians and the ratio of the two; a JSON file
holds every single figure.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import creation, protocol
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.cli.planning import make_plan
from airflow_backfill_provider.core.barrier import Requester
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.engine import SparkEngine
from airflow_backfill_provider.engine.session import start_session

ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "5"))
CHUNK = ROWS // (EPOCHS * 2)
FACTOR = 10


@dataclass(frozen=True, slots=True)
class Epoch:
    """
    One measured epoch.

    :param inject_seconds: planning and pinning the barrier, without a JVM.
    :param run_seconds: executing and committing it in a warm session.
    :param planned_bytes: size of the files that the chunk's statistics leave to read.
    """

    upstream_rows: int
    epoch: int
    inject_seconds: float
    run_seconds: float
    planned_bytes: int


def make_upstream(spark: SparkSession, path: str, rows: int) -> None:
    """Write orders in key order, in files of equal size whatever the number of rows."""
    (
        spark.range(rows)
        .selectExpr(
            "id AS order_id",
            "CAST(pmod(hash(id), 100000) AS INT) AS customer_id",
            "CAST(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS amount",
            "element_at(array('paid', 'open', 'shipped'), 1 + pmod(hash(id, 2), 3)) AS status",
            "timestamp_seconds(1700000000 + id) AS ordered_at",
            "sha2(CAST(id AS STRING), 256) AS note",
        )
        .repartitionByRange(max(rows // 100_000, 1), "order_id")
        .write.format("delta")
        .option("delta.enableChangeDataFeed", "true")
        .save(path)
    )


def create(engine: SparkEngine, folder: Path, name: str, upstream: str) -> Backfill:
    """Create the job that is measured."""
    job = BackfillJob(
        name=name,
        upstream={"path": upstream, "key": ["order_id"]},
        materialized_view=str(folder / f"{name}_view"),
        query="SELECT order_id, customer_id, amount * 100 AS cents, note FROM upstream WHERE status = 'paid'",
        rate_limit=CHUNK,
    )
    backfill = Backfill(job)
    creation.create_job(
        job, store=backfill.store, upstream=backfill.upstream, engine=lambda: engine, requested_by="bench"
    )
    return backfill


def measure(engine: SparkEngine, backfill: Backfill, rows: int) -> Epoch:
    """Run one epoch."""
    store, upstream = backfill.store, backfill.upstream
    plan = make_plan(backfill)
    started = time.perf_counter()
    barrier = protocol.inject_barrier(store=store, upstream=upstream, requester=Requester(user="bench")).barrier
    injected = time.perf_counter()
    assert barrier is not None
    protocol.run_barrier(barrier, store=store, engine=engine)
    return Epoch(rows, barrier.epoch, injected - started, time.perf_counter() - injected, plan.first_epoch_bytes)


def main() -> None:
    """Measure both upstreams in turns and report."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder = Path(name)
        spark = start_session("bench")
        engine = SparkEngine(spark)
        jobs = {}
        for rows in (ROWS, ROWS * FACTOR):
            console.print(f"making an upstream of {rows:,} rows …")
            make_upstream(spark, str(folder / f"orders_{rows}"), rows)
            jobs[rows] = create(engine, folder, f"orders_{rows}", str(folder / f"orders_{rows}"))
        # The first round warms the session up and is not counted.
        rounds = [[measure(engine, backfill, rows) for rows, backfill in jobs.items()] for _ in range(EPOCHS + 1)]
        spark.stop()
    epochs = [epoch for measured in rounds[1:] for epoch in measured]
    report(console, epochs)


def report(console: Console, epochs: list[Epoch]) -> None:
    """Print medians and ratios, and write every figure to a file."""
    table = Table(title=f"one epoch of {CHUNK:,} rows, median of {EPOCHS}")
    for heading in ("figure", f"{ROWS:,} rows", f"{ROWS * FACTOR:,} rows", "ratio"):
        table.add_column(heading, justify="right")
    for figure, shape in (("inject_seconds", ",.3f"), ("run_seconds", ",.3f"), ("planned_bytes", ",.0f")):
        small, large = (
            statistics.median(getattr(epoch, figure) for epoch in epochs if epoch.upstream_rows == rows)
            for rows in (ROWS, ROWS * FACTOR)
        )
        table.add_row(figure, format(small, shape), format(large, shape), f"{large / small:.2f}")
    console.print(table)
    results = Path(".bench") / "results.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps([asdict(epoch) for epoch in epochs], indent=2) + "\n")
    console.print(f"every figure: {results}")


if __name__ == "__main__":
    main()
