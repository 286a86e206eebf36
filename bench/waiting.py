"""
Measure what waiting costs the triggerer: many sensors, for one job that changes and for many of which most don't.

The triggers run as in Airflow's triggerer, in one event loop of a process that does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.log.version_watch import Versions
from airflow_backfill_provider.state.store import BackfillStore
from bench.made_jobs import make_job
from bench.measuring import RESULTS

SENSORS = int(os.environ.get("BENCH_SENSORS", "1000"))
POLL_INTERVAL = 5.0
MEASURED_SECONDS = 60.0
JOBS = (1, 100)


@dataclass(frozen=True, slots=True)
class Cost:
    """
    The cost of sensors while they waited.

    :param jobs: the number of jobs that they wait for.
    :param cores: processor time divided by wall-clock time.
    :param looks: looks at the control tables' versions per second.
    :param megabytes: additional memory compared with one sensor.
    :param threads: additional threads compared with one sensor.
    """

    sensors: int
    jobs: int
    cores: float
    looks: float
    megabytes: float
    threads: int


def main(console: Console) -> None:
    """Let sensors wait for one job, and for many."""
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder = Path(name)
        console.print(f"making {max(JOBS)} jobs …")
        jobs = [make_job(folder, f"job_{number:04}", 256) for number in range(max(JOBS))]
        costs = [asyncio.run(wait(jobs[:count])) for count in JOBS]
    table = Table("sensors", "jobs", "cores", "looks/s", "MB more", "threads more", title="waiting sensors")
    for cost in costs:
        table.add_row(
            f"{cost.sensors:,}",
            f"{cost.jobs:,}",
            f"{cost.cores:.3f}",
            f"{cost.looks:.0f}",
            f"{cost.megabytes:.0f}",
            f"{cost.threads}",
        )
    console.print(table)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "waiting.json").write_text(json.dumps([asdict(cost) for cost in costs], indent=1), encoding="utf-8")


async def wait(jobs: list[BackfillJob]) -> Cost:
    """Measure sensors that wait while one of the jobs changes its settings every second."""
    from airflow_backfill_provider.triggers import watched_job
    from airflow_backfill_provider.triggers.backfill import MaterializedViewFinishedTrigger

    looks = 0
    read_versions = watched_job.WatchedJob._read_versions  # noqa: SLF001 - the calls to count

    def counted(self: watched_job.WatchedJob) -> Versions:
        nonlocal looks
        looks += 1
        return read_versions(self)

    watched_job.WatchedJob._read_versions = counted  # type: ignore[method-assign]  # noqa: SLF001

    def sensor(number: int) -> asyncio.Task[object]:
        trigger = MaterializedViewFinishedTrigger(
            state=jobs[number % len(jobs)].state,
            backfill_conn_id="airflow_backfill_default",
            poll_interval=POLL_INTERVAL,
        )
        return asyncio.ensure_future(anext(trigger.run()))

    process = psutil.Process()
    waiting = [sensor(0)]
    await asyncio.sleep(2)
    memory, threads = process.memory_info().rss, threading.active_count()
    for number in range(1, SENSORS):
        waiting.append(sensor(number))
        await asyncio.sleep(POLL_INTERVAL / SENSORS)
    looks, begun, used = 0, time.monotonic(), time.process_time()
    store = BackfillStore(jobs[0].state)
    for turn in range(int(MEASURED_SECONDS)):
        await asyncio.to_thread(mutations.throttle_job, turn + 1, store=store, requested_by="bench")
        await asyncio.sleep(max(begun + turn + 1 - time.monotonic(), 0))
    seconds = time.monotonic() - begun
    cost = Cost(
        sensors=SENSORS,
        jobs=len(jobs),
        cores=(time.process_time() - used) / seconds,
        looks=looks / seconds,
        megabytes=(process.memory_info().rss - memory) / 2**20,
        threads=threading.active_count() - threads,
    )
    unexpected = sum(task.done() for task in waiting)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    if unexpected:
        raise RuntimeError(f"{unexpected} sensors did not wait")
    watched_job.WatchedJob._read_versions = read_versions  # type: ignore[method-assign]  # noqa: SLF001
    return cost
