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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.store.object_store import hadoop_settings
from bench.made_jobs import make_half_read_job
from bench.many_files import make_log
from bench.measuring import REQUESTER, change_upstream, make_upstream, save_figures, session
from bench.target import Target
from tests.integration.s3.proxy import FailingProxy, Request
from tests.integration.s3.server import running_s3

LATENCIES = tuple(float(text) for text in os.environ.get("BENCH_LATENCIES", "0,0.03,0.1").split(","))
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "8"))
WARM_UP = 3
CHUNK = 2_000
CHANGED = 200
STRATEGIES = tuple(os.environ.get("BENCH_STRATEGIES", "no_shuffle,arrangement,snapshot").split(","))
LOCAL = "local"
MANY, MANY_FILES, COMMITS = "many", 10_000, 100
IN_A_REGION = 0.03
"""The latency of the targets, in seconds."""
READS, CHANGES = "epoch", "epoch of changes"
IDLE, FIRST_IDLE, POLL = "idle injection", "idle injection of a new process", "poll"


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

    def requests(self) -> Sequence[Request]:
        """Return the requests since this was asked for last."""
        return self.proxy.requests() if self.proxy else ()


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
    requests: Sequence[Request]


def main(console: Console) -> None:
    """Measure, and print medians."""
    spark = session()
    steps: list[Step] = []
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name, running_s3(Path(name, "s3")) as server:
        try:
            steps += _measured(spark, Place(LOCAL, f"{name}/local", {}))
            for latency in LATENCIES:
                with FailingProxy(server, latency).running() as proxy:
                    folder = f"{proxy.root}/lake"
                    place = Place(_place(latency), folder, proxy.storage_options, proxy)
                    steps += _measured(spark, place)
                    steps += _on_many_files(place, server.on_disk(place.folder))
        finally:
            spark.stop()
    _report(console, steps)


class _Job:
    """
    A job whose steps are measured.

    :param spark: the session.
    :param place: where its tables lie.
    :param strategy: its strategy.
    """

    def __init__(self, spark: SparkSession, place: Place, strategy: str) -> None:
        self._spark, self._place, self._strategy = spark, place, strategy
        self._upstream = f"{place.folder}/{strategy}/orders"
        make_upstream(spark, self._upstream, CHUNK * (EPOCHS + WARM_UP + 2), "id")
        self._engine = SparkEngine(spark, place.options)
        self._backfill = self._opened()
        creation.create_job(
            self._backfill.job,
            store=self._backfill.store,
            upstream=self._backfill.upstream,
            engine=lambda: self._engine,
            requested_by="bench",
        )
        self._barrier: Barrier | None = None
        self._steps: list[Step] = []

    def steps(self) -> Sequence[Step]:
        """Run the job to its end, and afterwards epochs of changes, and epochs that have nothing to do."""
        for number in range(EPOCHS + WARM_UP):
            self._step(f"injection, {self._strategy}", self._inject)
            self._step(f"{READS}, {self._strategy}", self._run)
            if number < WARM_UP:
                self._steps.clear()
        while not self._backfill.store.state().completed:
            self._inject()
            self._run()
        for number in range(1 + EPOCHS):
            change_upstream(self._spark, self._upstream, CHANGED, number)
            self._inject()
            if number:
                self._step(f"{CHANGES}, {self._strategy}", self._run)
            else:
                self._run()
        self._inject()
        watch = self._backfill.upstream.watch()
        watch.look()
        for _ in range(EPOCHS):
            self._step(IDLE, self._inject)
            self._step(POLL, watch.look)
            self._backfill = self._opened()
            self._step(FIRST_IDLE, self._inject)
        return self._steps

    def _opened(self) -> Backfill:
        job = BackfillJob(
            name="orders",
            upstream={"path": self._upstream, "key": ["order_id"]},
            materialized_view=f"{self._place.folder}/{self._strategy}/view",
            query="SELECT order_id, amount FROM upstream",
            strategy=self._strategy,
            rate_limit=CHUNK,
        )
        return Backfill(job, self._place.options)

    def _inject(self) -> None:
        backfill = self._backfill
        self._barrier = protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=REQUESTER
        ).barrier

    def _run(self) -> None:
        assert self._barrier is not None
        protocol.run_epoch(self._barrier, store=self._backfill.store, engine=self._engine)

    def _step(self, name: str, action: Callable[[], object]) -> None:
        self._steps.append(_step(self._place, name, action))


def _step(place: Place, name: str, action: Callable[[], object]) -> Step:
    """Take a step, and return what it cost."""
    place.requests()
    started = time.perf_counter()
    action()
    return Step(place.name, name, time.perf_counter() - started, place.requests())


def _on_many_files(place: Place, on_disk: Path) -> Sequence[Step]:
    """
    Inject barriers of a job over very many files, each in what could be a process of its own.

    :param on_disk: where the server keeps the place.
    """
    make_log(on_disk / MANY, MANY_FILES, COMMITS)
    steps = []
    for number in range(EPOCHS):
        job = make_half_read_job(
            MANY_FILES,
            path=on_disk / MANY,
            upstream=f"{place.folder}/{MANY}",
            storage_options=place.options,
            name=f"{MANY}_{number}",
            materialized_view=f"{place.folder}/view_{number}",
        )
        backfill = Backfill(job, place.options)
        inject = partial(protocol.inject_barrier, store=backfill.store, upstream=backfill.upstream, requester=REQUESTER)
        steps.append(_step(place, f"injection on {MANY_FILES:,} files", inject))
    return steps


def _place(latency: float) -> str:
    """Return the name of a bucket whose requests wait for some seconds."""
    return f"S3, {latency * 1000:.0f} ms"


def _measured(spark: SparkSession, place: Place) -> Sequence[Step]:
    session_ = spark.newSession()
    for setting, value in hadoop_settings(place.options).items():
        session_.conf.set(setting, value)
    return [step for strategy in STRATEGIES for step in _Job(session_, place, strategy).steps()]


def _report(console: Console, steps: Sequence[Step]) -> None:
    table = Table("", "step", "requests", "seconds", "times local", title=f"medians of {EPOCHS}")
    local = {step.step: _median(steps, LOCAL, step.step)[1] for step in steps if step.place == LOCAL}
    for place in dict.fromkeys(step.place for step in steps):
        for name in dict.fromkeys(step.step for step in steps if step.place == place):
            requests, seconds = _median(steps, place, name)
            times = f"{seconds / local[name]:.1f}" if name in local else ""
            table.add_row(place, name, f"{requests:.0f}", f"{seconds:.3f}", times)
    console.print(table)
    console.print(f"every figure and request: {save_figures('store', {'steps': [asdict(step) for step in steps]})}")


def _median(steps: Sequence[Step], place: str, name: str) -> tuple[float, float]:
    found = [step for step in steps if (step.place, step.step) == (place, name)]
    return statistics.median(len(step.requests) for step in found), statistics.median(step.seconds for step in found)


def _requests_of(name: str) -> Callable[[Any], float]:
    """Return a figure: the requests of a step, where that takes most."""

    def requests(results: Any) -> float:
        found = [step for step in results["steps"] if step["step"] == name]
        return max(
            statistics.median(len(step["requests"]) for step in found if step["place"] == place)
            for place in {step["place"] for step in found}
        )

    return requests


def _times_local(name: str) -> Callable[[Any], float]:
    """Return a figure: the seconds of a step with a latency as in a region, as a multiple of those of local tables."""

    def seconds(results: Any, place: str) -> float:
        return float(
            statistics.median(
                step["seconds"] for step in results["steps"] if (step["place"], step["step"]) == (place, name)
            )
        )

    return lambda results: seconds(results, _place(IN_A_REGION)) / seconds(results, LOCAL)


TARGETS = (
    Target("requests of a poll of a bucket", 2, "requests", "store", _requests_of(POLL)),
    Target("requests of an injection with nothing to do", 6, "requests", "store", _requests_of(IDLE)),
    *(
        Target(
            f"{step}, {strategy}, in a bucket, 30 ms a request",
            2,
            "times local",
            "store",
            _times_local(f"{step}, {strategy}"),
        )
        for strategy in ("no_shuffle", "arrangement", "snapshot")
        for step in (READS, CHANGES)
    ),
)
