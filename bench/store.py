"""
Measure what S3 costs: requests of a warm epoch, of an idle injection and of a poll, and the time of an epoch.

A server with the API of S3 runs on this machine, behind a proxy that counts the requests and lets each wait, as a store
in a region does. The same job with local tables is measured in the same run.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.execution.spark_engine import SparkEngine
from airflow_backfill_provider.lake.object_store import hadoop_settings
from airflow_backfill_provider.protocol import creation
from airflow_backfill_provider.protocol.backfill import Backfill
from bench.measuring import REQUESTER, make_upstream, save_figures, session
from demo.s3_server import S3Server
from tests.integration.s3.proxy import FailingProxy
from tests.ports import free_port

LATENCIES = tuple(float(text) for text in os.environ.get("BENCH_LATENCIES", "0,0.03,0.1").split(","))
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "8"))
WARM_UP = 3
CHUNK = 2_000
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where the tables lie.

    :param name: for the report.
    :param folder: a folder, or a folder of a bucket.
    :param options: options of the object store.
    :param proxy: what counts requests.
    """

    name: str
    folder: str
    options: Mapping[str, str]
    proxy: FailingProxy | None = None

    def requests(self) -> int:
        """Return the requests since this was asked for last."""
        return self.proxy.requests() if self.proxy else 0


@dataclass(frozen=True, slots=True)
class Step:
    """
    What one step cost.

    :param place: where.
    :param step: which.
    :param seconds: its elapsed time.
    :param requests: its requests.
    """

    place: str
    step: str
    seconds: float
    requests: int


def main(console: Console) -> None:
    """Measure, and print medians."""
    spark = session()
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        server = S3Server(Path(name, "s3"), free_port())
        server.folder.mkdir()
        server.start()
        try:
            steps += _measured(spark, Place(LOCAL, f"{name}/local", {}))
            for latency in LATENCIES:
                with FailingProxy(server, latency).running() as proxy:
                    label = f"S3, {latency * 1000:.0f} ms"
                    folder = f"{proxy.root}/lake"
                    steps += _measured(spark, Place(label, folder, proxy.storage_options, proxy))
        finally:
            server.stop()
            spark.stop()
    _report(console, steps)


def _measured(spark: SparkSession, place: Place) -> list[Step]:
    session_ = spark.newSession()
    for setting, value in hadoop_settings(place.options).items():
        session_.conf.set(setting, value)
    upstream = f"{place.folder}/orders"
    make_upstream(session_, upstream, CHUNK * (EPOCHS + WARM_UP + 2), "id")
    engine = SparkEngine(session_, place.options)
    backfill = Backfill(
        BackfillJob(
            name="orders",
            upstream={"path": upstream, "key": ["order_id"]},
            materialized_view=f"{place.folder}/view",
            query="SELECT order_id, amount FROM upstream",
            strategy="no_shuffle",
            rate_limit=CHUNK,
        ),
        place.options,
    )
    creation.create_job(
        backfill.job, store=backfill.store, upstream=backfill.upstream, engine=lambda: engine, requested_by="bench"
    )
    steps: list[Step] = []

    def step(name: str, action: object) -> None:
        place.requests()
        started = time.perf_counter()
        action()  # type: ignore[operator]
        steps.append(Step(place.name, name, time.perf_counter() - started, place.requests()))

    for number in range(EPOCHS + WARM_UP):
        barrier = None

        def inject() -> None:
            nonlocal barrier
            barrier = protocol.inject_barrier(
                store=backfill.store, upstream=backfill.upstream, requester=REQUESTER
            ).barrier

        step("injection", inject)
        assert barrier is not None
        step("epoch", lambda: protocol.run_barrier(barrier, store=backfill.store, engine=engine))  # noqa: B023
        if number < WARM_UP:
            steps.clear()
    while not backfill.store.state().completed:
        inject()
        assert barrier is not None
        protocol.run_barrier(barrier, store=backfill.store, engine=engine)
    watch = backfill.upstream.watch()
    watch.look()
    for _ in range(EPOCHS):
        step("idle injection", inject)
        step("poll", watch.look)
    return steps


def _report(console: Console, steps: Sequence[Step]) -> None:
    table = Table("", "step", "requests", "seconds", "times local", title=f"medians of {EPOCHS}")
    local = {step: _median(steps, LOCAL, step)[1] for step in ("injection", "epoch", "idle injection", "poll")}
    for place in dict.fromkeys(step.place for step in steps):
        for name, there in local.items():
            requests, seconds = _median(steps, place, name)
            table.add_row(place, name, f"{requests:.0f}", f"{seconds:.3f}", f"{seconds / there:.1f}")
    console.print(table)
    console.print(f"every figure: {save_figures('store', {'steps': [asdict(step) for step in steps]})}")


def _median(steps: Sequence[Step], place: str, name: str) -> tuple[float, float]:
    found = [step for step in steps if (step.place, step.step) == (place, name)]
    return statistics.median(step.requests for step in found), statistics.median(step.seconds for step in found)
