"""
Measure the fixed cost of a small epoch on a warm engine: its cost beyond Spark's writes.

Three ways take turns: epochs of a client that stays alive, epochs in a process each, and the same rows appended by
hand. The upstream does not change, and its chunks are small, so that nearly all of the measured time is fixed cost. The
processor time of engine and client is measured, too, because other programs on the machine affect it less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import ConnectSession, connected, server_version
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.applications.local_engine.server import start_engine, stop_engine
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.measuring import create, save_figures

PORT = 15802
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "12"))
WARM_UP = 4
CHUNK = 20_000
EPOCH, EPOCH_IN_PROCESS, BY_HAND = "epoch, one client", "epoch, a process each", "append by hand"
APPLICATION = Path(__file__).parents[1] / "spark_apps" / "backfill_epoch.py"


@dataclass(frozen=True, slots=True)
class Cost:
    """
    The cost of one step.

    :param step: the kind of step.
    :param seconds: wall-clock seconds.
    :param engine_seconds: processor time of the engine.
    :param client_seconds: processor time of this process and of those that it waited for.
    """

    step: str
    seconds: float
    engine_seconds: float
    client_seconds: float


def main(console: Console) -> None:
    """Measure, and print medians."""
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        os.environ["XDG_STATE_HOME"] = name
        record, _ = start_engine(port=PORT, master="local[*]", conf={}, connect=server_version)
        try:
            with connected(record.remote, what="bench") as connection:
                costs = _measure(Path(name), connection, record.process.pid)
        finally:
            stop_engine()
    _report(console, costs)


def _measure(folder: Path, connection: ConnectSession, server: int) -> list[Cost]:
    engine = ConnectEngine(connection, None, purpose="epoch")
    lasting, each = _job(folder, engine, "one_client"), _job(folder, engine, "a_process_each")
    costs: list[Cost] = []

    def measured(step: str, action: Callable[[], object], *, count: bool) -> None:
        started, before, ours = time.perf_counter(), _processor_seconds(server), _own_seconds()
        action()
        cost = Cost(step, time.perf_counter() - started, _processor_seconds(server) - before, _own_seconds() - ours)
        if count:
            costs.append(cost)

    for number in range(WARM_UP + EPOCHS):
        count = number >= WARM_UP
        measured(EPOCH, lambda: _run(lasting, engine), count=count)
        measured(EPOCH_IN_PROCESS, lambda: _run_process(each, connection.remote), count=count)
        measured(BY_HAND, lambda: _append(lasting, connection, folder), count=count)
    return costs


def _job(folder: Path, engine: ConnectEngine, name: str) -> Backfill:
    path = folder / name
    count = CHUNK * (WARM_UP + EPOCHS + 1)
    columns = {
        "order_id": pa.array(range(count), pa.int64()),
        "customer_id": pa.array((number % 9973 for number in range(count)), pa.int32()),
        "amount": pa.array((number % 997 for number in range(count)), pa.int32()),
        "status": ["paid" if number % 3 else "open" for number in range(count)],
        "note": [f"note {number}" for number in range(count)],
    }
    properties = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), pa.table(columns), configuration=properties)
    return create(engine, folder, f"job_{name}", str(path), rate_limit=CHUNK)


def _pin(backfill: Backfill) -> Barrier:
    injected = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="bench")
    )
    assert injected.barrier is not None
    return injected.barrier


def _run(backfill: Backfill, engine: ConnectEngine) -> None:
    protocol.run_epoch(_pin(backfill), store=backfill.store, engine=engine)


def _run_process(backfill: Backfill, remote: Remote) -> None:
    command = [sys.executable, str(APPLICATION), "--state", backfill.job.state, "--epoch", str(_pin(backfill).epoch)]
    subprocess.run(command, env={**os.environ, "SPARK_REMOTE": str(remote)}, check=True, capture_output=True)


def _append(backfill: Backfill, connection: ConnectSession, folder: Path) -> None:
    """Append the same rows as the newest epoch of a job, with its bounds known."""
    barrier = backfill.store.barriers()[-1]
    (
        connection.spark.read.format("delta")
        .option("versionAsOf", barrier.upstream.to_offset.number)
        .load(backfill.job.upstream.location)
        .filter(f"order_id >= {(barrier.epoch - 1) * CHUNK} AND order_id < {barrier.epoch * CHUNK}")
        .filter("status = 'paid'")
        .selectExpr("order_id", "customer_id", "amount * 100 AS cents", "note")
        .write.format("delta")
        .mode("append")
        .save(str(folder / "by_hand"))
    )


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _report(console: Console, costs: list[Cost]) -> None:
    table = Table(title=f"one epoch of {CHUNK:,} rows on a warm engine, median of {EPOCHS} (quarters)")
    for column in ("step", "seconds", "processor seconds of the engine", "and of the client"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for step in dict.fromkeys(cost.step for cost in costs):
        of_step = [cost for cost in costs if cost.step == step]
        table.add_row(
            step,
            *(
                _spread([getattr(cost, figure) for cost in of_step])
                for figure in ("seconds", "engine_seconds", "client_seconds")
            ),
        )
    console.print(table)
    figures = [asdict(cost) for cost in costs]
    console.print(f"an epoch beyond the append: {fixed_seconds(figures):.2f} s")
    console.print(f"every figure: {save_figures('warm', figures)}")


def fixed_seconds(costs: Sequence[Mapping[str, Any]]) -> float:
    """Return the additional time of an epoch compared with the append by hand after it: the median of all rounds."""
    epochs, appends = ([cost["seconds"] for cost in costs if cost["step"] == step] for step in (EPOCH, BY_HAND))
    return float(statistics.median(epoch - append for epoch, append in zip(epochs, appends, strict=True)))


def _spread(figures: list[float]) -> str:
    low, middle, high = statistics.quantiles(figures, n=4)
    return f"{middle:.2f} ({low:.2f} – {high:.2f})"
