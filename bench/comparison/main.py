"""Choose what to compare, from the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from bench.comparison.by_hand import ByHand
from bench.comparison.contestants import CONTESTANTS, Contestant, Copy, WarmEpochs
from bench.comparison.peers import ChangeFeedStream
from bench.comparison.race import Run, race
from bench.comparison.report import show, write
from bench.comparison.workload import Workload
from bench.measuring import ROWS_PER_FILE, session

ROWS = int(os.environ.get("BENCH_ROWS", "20000000"))
EPOCHS = int(os.environ.get("BENCH_EPOCHS", "20"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
CHOSEN_CONTESTANTS = os.environ.get("BENCH_CONTESTANTS", "").split(";")
CHOSEN_WORKLOADS = os.environ.get("BENCH_WORKLOADS", "").split(";")

WORKLOADS = (
    ("ordered", "updates", 1),
    ("ordered", "updates", 0),
    ("ordered", "updates", 10),
    ("ordered", "appends", 1),
    ("ordered", "deletes", 1),
    ("random", "updates", 1),
)
"""For each workload the keys, the kind of change, and the changed rows per thousand."""

QUICK_WORKLOADS = (WORKLOADS[0], WORKLOADS[-1])


def main(console: Console) -> None:
    """Compare all workloads."""
    workloads = [Workload(*chosen, rows=ROWS, epochs=EPOCHS) for chosen in WORKLOADS]
    compare(console, [workload for workload in workloads if is_chosen(workload.name, CHOSEN_WORKLOADS)], ROUNDS)


def quick(console: Console) -> None:
    """Compare in minutes: a small upstream, few epochs, one round."""
    rows, epochs = min(ROWS, 400_000), min(EPOCHS, 4)
    compare(console, [Workload(*chosen, rows=rows, epochs=epochs) for chosen in QUICK_WORKLOADS], rounds=1)


def compare(console: Console, workloads: list[Workload], rounds: int) -> None:
    """Race, and report."""
    limit = Copy()
    contestants: list[Contestant] = [
        limit,
        *(each for each in CONTESTANTS[1:] if is_chosen(each.name, CHOSEN_CONTESTANTS)),
    ]
    spark = warm_session(console, contestants)
    runs: list[Run] = []
    written: list[Path] = []
    for number, workload in enumerate(workloads, start=1):
        runs += race(console, spark, workload, contestants, rounds)
        show(console, workload, runs, limit.name)
        # All workloads take hours, so each result is saved at once.
        written = write(workloads[:number], runs, limit.name)
    spark.stop()
    for path in written:
        console.print(f"written: {path}")


def warm_session(console: Console, contestants: Sequence[Contestant]) -> SparkSession:
    """Return a session that a small race, which does not count, has warmed up."""
    spark = session()
    warm_up = Workload(*QUICK_WORKLOADS[0], rows=2 * ROWS_PER_FILE, epochs=2)
    in_session = [found for found in contestants if isinstance(found, Copy | ByHand | ChangeFeedStream | WarmEpochs)]
    list(race(console, spark, warm_up, in_session, rounds=1))
    return spark


def is_chosen(name: str, chosen: Sequence[str]) -> bool:
    """Return whether a name has one of the chosen texts in it."""
    return any(part.strip() in name for part in chosen)
