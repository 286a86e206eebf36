"""A backfill from Kafka: ``make bench ARGS=source``. The contestants take turns; all results must be equal."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.comparison.race import DifferentResultError, fingerprint
from bench.measuring import cpu_seconds, java_process, save_figures, session
from bench.source.contestants import CONTESTANTS
from bench.source.results import TARGETS
from bench.source.topic import FEW, TOPIC, broker_with_orders

RECORDS = int(os.environ.get("BENCH_ROWS", "10000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))

_WARM_UP = 200_000


@dataclass(frozen=True, slots=True)
class Run:
    """
    One run of a contestant.

    :param cpu_seconds: the processor time of Spark's process; more reliable than the clock on a busy machine.
    """

    contestant: str
    seconds: float
    cpu_seconds: float


def main(console: Console) -> None:
    """Run all rounds, and report."""
    console.print(f"filling {TOPIC} with {RECORDS:,} records …")
    with broker_with_orders(RECORDS, _WARM_UP):
        spark = session()
        for name in CONTESTANTS:
            _run(spark, name, FEW)
        runs: list[Run] = []
        seen = set()
        for number in range(ROUNDS):
            for name in list(CONTESTANTS)[:: 1 if number % 2 == 0 else -1]:
                run, found = _run(spark, name, TOPIC)
                seen.add(found)
                runs.append(run)
                console.print(f"  round {number + 1}: {name} {run.seconds:.1f} s, processor {run.cpu_seconds:.1f} s")
        spark.stop()
    if len(seen) > 1:
        raise DifferentResultError(f"the results differ: {seen}")
    figures = {"records": RECORDS, "runs": [asdict(run) for run in runs]}
    table = Table(
        "", "seconds", "processor seconds", title=f"{RECORDS:,} records, median of {ROUNDS} (lowest – highest)"
    )
    for name in CONTESTANTS:
        own = [run for run in runs if run.contestant == name]
        table.add_row(name, _spread([run.seconds for run in own]), _spread([run.cpu_seconds for run in own]))
    console.print(table)
    verdicts = Table("", "target", "measured", "")
    for target in TARGETS:
        verdicts.add_row(*target.row(target.figure(figures)))
    console.print(verdicts)
    console.print("all results are equal")
    console.print(f"every figure: {save_figures('source', figures)}")


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} – {max(values):.1f})"


def _run(spark: SparkSession, name: str, topic: str) -> tuple[Run, object]:
    """Let a contestant run; return its times, and a fingerprint of its table."""
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
    process = java_process()
    try:
        started, cpu_started = time.perf_counter(), cpu_seconds(process)
        CONTESTANTS[name](spark, topic, folder / "table")
        run = Run(name, time.perf_counter() - started, cpu_seconds(process) - cpu_started)
        return run, fingerprint(spark.read.format("delta").load(str(folder / "table")))
    finally:
        shutil.rmtree(folder)
