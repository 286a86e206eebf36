"""
Measure the work without Spark: asking, waiting, planning and committing, on small and on very large tables.

Nothing here starts a JVM. Airflow's own work is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.triggers import watched_job
from airflow_backfill_provider.triggers.backfill import MaterializedViewFinishedTrigger
from bench.made_jobs import WIDE_VNODES, make_half_read_job, make_job
from bench.many_files import make_log
from bench.measuring import save_figures
from tests.unit.stand_in import Lake, context

FILES = int(os.environ.get("BENCH_FILES", "100000"))
COMMITS = 100
POLLS = int(os.environ.get("BENCH_POLLS", "10000"))
WARM_UP_POLLS = POLLS // 10
REPETITIONS = 10
CONNECTION = "airflow_backfill_default"


def main(console: Console) -> None:
    """Measure everything, and save the figures."""
    logging.disable(logging.WARNING)
    os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"] = json.dumps({"conn_type": "airflow_backfill"})
    figures: dict[str, float] = {}
    table = Table("without Spark", "figure", title="the control plane")
    for measure in (epoch_with_nothing_new, waiting, injection, state_commit):
        with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
            measured = measure(Path(name))
        figures |= measured
        for figure, value in measured.items():
            table.add_row(figure, f"{value:,.4g}")
    console.print(table)
    console.print(f"every figure: {save_figures('control_plane', figures)}")


def epoch_with_nothing_new(folder: Path) -> dict[str, float]:
    """Run an epoch's task for a finished view, without a change of the upstream."""
    lake = Lake(folder)
    lake.append(range(1000))
    lake.create()
    lake.finish()
    operator = RunEpochOperator(task_id="run_epoch", job=lake.definition)

    def run() -> None:
        assert operator.execute(context("run_epoch"))["epoch"] is None

    with contextlib.redirect_stdout(io.StringIO()):
        return _cost_of("nothing_new", run)


def waiting(folder: Path) -> dict[str, float]:
    """Poke a sensor, and poll a trigger many times; also return the growth in memory after the first tenth."""
    watched_job.FRESH_SECONDS = 0.0  # every poll reads the tables, as it would seconds after the previous one
    job = make_job(folder, "waited_for", 256)
    trigger = MaterializedViewFinishedTrigger(state=job.state, backfill_conn_id=CONNECTION, poll_interval=5.0)
    watched = watched_job.watched_job(job.state, CONNECTION)
    condition = trigger.condition

    async def poll(times: int) -> float:
        started = time.perf_counter()
        for _ in range(times):
            assert (await watched.observe(condition)).value is None
        return (time.perf_counter() - started) / times

    async def poll_all() -> tuple[float, int]:
        await poll(WARM_UP_POLLS)
        before = psutil.Process().memory_info().rss
        seconds = await poll(POLLS - WARM_UP_POLLS)
        return seconds, psutil.Process().memory_info().rss - before

    seconds, more = asyncio.run(poll_all())
    return {
        **_cost_of("sensor_poke", trigger.look),
        "trigger_poll_seconds": seconds,
        "trigger_polls_more_bytes": more,
    }


def injection(folder: Path) -> dict[str, float]:
    """Inject a barrier on an upstream with very many files, of which half are read and one is read in part."""
    upstream = folder / "orders"
    make_log(upstream, FILES, COMMITS)
    answers = []
    for number in range(3):
        job = make_half_read_job(
            FILES,
            path=upstream,
            upstream=str(upstream),
            name=f"many_files_{number}",
            materialized_view=str(folder / f"view_{number}"),
        )
        done = subprocess.run(
            [sys.executable, "-m", "bench.injection", job.state], capture_output=True, text=True, check=True
        )
        answers.append(json.loads(done.stdout))
    return {
        "injection_seconds": statistics.median(answer["seconds"] for answer in answers),
        "injection_cpu_seconds": statistics.median(answer["cpu_seconds"] for answer in answers),
        "injection_peak_bytes": max(answer["peak_bytes"] for answer in answers),
    }


def state_commit(folder: Path) -> dict[str, float]:
    """
    Commit the progress of very many vnodes, each at a different position, epoch by epoch.

    An epoch has already read the state at that point, so reading is measured separately.
    """
    job = make_job(folder, "wide", WIDE_VNODES)
    store = BackfillStore(job.state)
    settings, before = store.settings(), store.state()
    first = before.epoch + 1
    states = iter([_moved(before, epoch) for epoch in range(first, first + REPETITIONS + 1)])

    def commit() -> None:
        store.write_state(next(states), settings)

    return {
        **_cost_of("state_commit", commit, prepare=store.state),
        **_cost_of("state_read", lambda: BackfillStore(job.state).state()),
    }


def _moved(state: BackfillState, epoch: int) -> BackfillState:
    """Return the state after every vnode that is not Completed has made progress."""
    moved = (
        InProgress((vnode * 7 + epoch,), vnode + epoch) if isinstance(was, InProgress | NotStarted) else was
        for vnode, was in enumerate(state.vnodes)
    )
    return BackfillState(epoch, tuple(moved))


def _cost_of(
    name: str, work: Callable[[], object], *, prepare: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """
    Do the work once to warm up, and then several times; return the medians.

    On a busy machine, processor time is more reliable than the clock.

    :param prepare: runs before each repetition and does not count.
    """
    work()
    seconds, cpu_seconds = [], []
    for _ in range(REPETITIONS):
        prepare()
        started, cpu_started = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - started)
        cpu_seconds.append(time.process_time() - cpu_started)
    return {f"{name}_seconds": statistics.median(seconds), f"{name}_cpu_seconds": statistics.median(cpu_seconds)}
