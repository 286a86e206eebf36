"""
Compare both strategies on one upstream with keys in random order.

Each epoch reads a tenth of the upstream. The first comparison is without changes, so it counts only the bytes of the
snapshot. In the second one 0.1 % of all rows change before each epoch, so it also counts those of the change feed and
of the merge. Epochs take turns, so that a change in the machine's speed affects both.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from bench.measuring import RANDOM, Epoch, bytes_read, change_upstream, create, make_upstream, measure, save, session

ROWS = int(os.environ.get("BENCH_RANDOM_ROWS", "4000000"))
EPOCHS = 10
STRATEGIES = ("no_shuffle", "arrangement")


@dataclass(frozen=True, slots=True)
class Creation:
    """The cost of creating a job, including its arrangement."""

    seconds: float
    bytes_read: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    Both backfills of one upstream.

    :param size: bytes of the arrangement at the end.
    """

    creations: dict[str, Creation]
    epochs: list[Epoch]
    size: int


def main(console: Console) -> None:
    """Backfill one upstream twice, without changes and with changes."""
    for changed in (0, ROWS // 1000):
        with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
            report(console, changed, _backfill(console, Path(name), changed))


def _backfill(console: Console, folder: Path, changed: int) -> Outcome:
    upstream = str(folder / "orders")
    spark = session()
    engine = SparkEngine(spark)
    console.print(f"making an upstream of {ROWS:,} rows with random keys …")
    make_upstream(spark, upstream, ROWS, RANDOM)
    jobs: dict[str, Backfill] = {}
    creations: dict[str, Creation] = {}
    for strategy in STRATEGIES:
        before, started = bytes_read(), time.perf_counter()
        jobs[strategy] = create(
            engine, folder, strategy, upstream, strategy=strategy, rate_limit=ROWS // EPOCHS, keep_arrangement=True
        )
        creations[strategy] = Creation(time.perf_counter() - started, bytes_read() - before)
    epochs: list[Epoch] = []
    number = 0
    while not all(backfill.store.state().completed for backfill in jobs.values()):
        if changed:
            change_upstream(spark, upstream, changed, number)
        number += 1
        for backfill in jobs.values():
            if not backfill.store.state().completed:
                epoch = measure(engine, backfill)
                epochs += [epoch] if epoch else []
    size = ArrangementFiles(location_of(jobs["arrangement"].settings())).size()
    spark.stop()
    return Outcome(creations, epochs, size)


def report(console: Console, changed: int, outcome: Outcome) -> None:
    """Print the total cost of each strategy."""
    table = Table(title=f"{ROWS:,} rows with random keys, {changed:,} of them changed before each epoch")
    for heading in ("", "creation", "bytes read", "epochs", "seconds", "bytes read", "of arrangement", "all seconds"):
        table.add_column(heading, justify="right")
    for strategy, creation in outcome.creations.items():
        mine = [epoch for epoch in outcome.epochs if epoch.name == strategy]
        spent = sum(epoch.inject_seconds + epoch.run_seconds for epoch in mine)
        read = sum(epoch.bytes_read for epoch in mine)
        table.add_row(
            strategy,
            f"{creation.seconds:.1f} s",
            f"{creation.bytes_read:,}",
            str(len(mine)),
            f"{spent:.1f}",
            f"{read:,}",
            f"{read / outcome.size:.2f}",
            f"{creation.seconds + spent:.1f}",
        )
    console.print(table)
    path = save(f"random_keys_{changed}", outcome.epochs)
    console.print(f"the arrangement has {outcome.size:,} bytes; every figure: {path}")
