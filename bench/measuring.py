"""Shared code of the benchmarks: upstreams of any size and order, one measured epoch, and the bytes that Spark read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill

ROWS_PER_FILE = 100_000
RESULTS = Path(".bench")

REQUESTER = Requester(user="bench")

ORDERED = "lpad(CAST(id AS STRING), 32, '0')"
RANDOM = "md5(CAST(id AS STRING))"


@dataclass(frozen=True, slots=True)
class Epoch:
    """
    One measured epoch.

    :param name: the name of the job.
    :param rows: the number of snapshot rows that it read.
    :param changes: the number of changes that it applied.
    :param inject_seconds: planning and pinning the barrier, without a JVM.
    :param run_seconds: executing and committing it in a warm session.
    :param bytes_read: bytes that Spark read from files in this time, of tables and of shuffles.
    """

    name: str
    epoch: int
    rows: int
    changes: int
    inject_seconds: float
    run_seconds: float
    bytes_read: int


def session() -> SparkSession:
    """Start Spark."""
    return start_session("bench")


def bytes_read() -> int:
    """
    Return the bytes that Spark's process has read from files so far.

    The number comes from the operating system: Spark's metric leaves out the ranges that its Parquet reader reads.
    """
    counters = dict(line.split(": ") for line in Path(f"/proc/{java_process()}/io").read_text().splitlines())
    return int(counters["rchar"])


def java_process() -> int:
    """Return the id of Spark's process: the youngest one, because a benchmark starts its servers before."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int([pid for pid in children if "java" in Path(f"/proc/{pid}/comm").read_text()][-1])


def cpu_seconds(process: int) -> float:
    """Return the processor time that a process has used so far."""
    # The name of a process, in brackets, may have blanks.
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def make_upstream(spark: SparkSession, path: str, rows: int, key: str) -> None:
    """
    Write orders in order of arrival, in files of equal size for any number of rows.

    :param key: the key as an expression of ``id``, an order's number in order of arrival.
    """
    (
        spark.range(0, rows, 1, max(rows // ROWS_PER_FILE, 1))
        .selectExpr(
            f"{key} AS order_id",
            "CAST(pmod(hash(id), 100000) AS INT) AS customer_id",
            "CAST(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS amount",
            "element_at(array('paid', 'open', 'shipped'), 1 + pmod(hash(id, 2), 3)) AS status",
            "timestamp_seconds(1700000000 + id) AS ordered_at",
            "sha2(CAST(id AS STRING), 256) AS note",
        )
        .write.format("delta")
        .option("delta.enableChangeDataFeed", "true")
        .option("delta.enableDeletionVectors", "true")
        .save(path)
    )


def change_upstream(spark: SparkSession, path: str, rows: int, epoch: int) -> None:
    """Update about the given number of rows, spread over all keys."""
    total = spark.read.format("delta").load(path).count()
    spark.sql(
        f"UPDATE delta.`{path}` SET amount = amount + 1 "
        f"WHERE pmod(hash(order_id, {epoch}), {max(total // rows, 1)}) = 0"
    )


def create(engine: SparkEngine, folder: Path, name: str, upstream: str, **fields: Any) -> Backfill:
    """Create a job on orders."""
    job = BackfillJob(
        name=name,
        upstream={"path": upstream, "key": ["order_id"]},
        materialized_view=str(folder / f"{name}_view"),
        query="SELECT order_id, customer_id, amount * 100 AS cents, note FROM upstream WHERE status = 'paid'",
        **fields,
    )
    backfill = Backfill(job)
    creation.create_job(
        job, store=backfill.store, upstream=backfill.upstream, engine=lambda: engine, requested_by="bench"
    )
    return backfill


def measure(engine: SparkEngine, backfill: Backfill, requester: Requester = REQUESTER) -> Epoch | None:
    """Run one epoch; None if there is nothing to do."""
    store, upstream = backfill.store, backfill.upstream
    before, started = bytes_read(), time.perf_counter()
    barrier = protocol.inject_barrier(store=store, upstream=upstream, requester=requester).barrier
    injected = time.perf_counter()
    if barrier is None:
        return None
    commit = protocol.run_epoch(barrier, store=store, engine=engine)
    done = time.perf_counter()
    return Epoch(
        backfill.job.name,
        barrier.epoch,
        commit.snapshot_read_row_count,
        commit.upstream_output_row_count,
        injected - started,
        done - injected,
        bytes_read() - before,
    )


def save_figures(name: str, figures: Mapping[str, Any] | Sequence[Any]) -> Path:
    """Write some figures to a file, and return it."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return path


def save(name: str, epochs: Iterable[Epoch]) -> Path:
    """Write every single figure to a file, and return it."""
    return save_figures(name, [asdict(epoch) for epoch in epochs])
