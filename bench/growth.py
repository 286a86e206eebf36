"""
Measure the cost of an epoch as the upstream grows.

Upstreams of several sizes are backfilled with the same rate limit and the same number of changes. Their epochs take
turns, so that a change in the machine's speed affects all of them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.measuring import ORDERED, RANDOM, Epoch, change_upstream, create, make_upstream, measure, save, session

ROWS = int(os.environ.get("BENCH_GROWTH_ROWS", "250000"))
EPOCHS = int(os.environ.get("BENCH_GROWTH_EPOCHS", "3"))
FACTORS = (1, 4, 16)
CHUNK = ROWS // (EPOCHS * 2)
CHANGES = CHUNK // 100

KEYS = {"no_shuffle": ORDERED, "arrangement": RANDOM}


def main(console: Console) -> None:
    """Measure both strategies, each with the keys that suit it."""
    for strategy, key in KEYS.items():
        with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
            folder = Path(name)
            spark = session()
            engine = SparkEngine(spark)
            jobs = {}
            for factor in FACTORS:
                upstream = str(folder / f"orders_{factor}")
                console.print(f"{strategy}: making an upstream of {ROWS * factor:,} rows …")
                make_upstream(spark, upstream, ROWS * factor, key)
                jobs[upstream] = create(
                    engine, folder, f"times_{factor}", upstream, strategy=strategy, rate_limit=CHUNK
                )
            epochs: list[Epoch] = []
            # The first round warms up the session and does not count.
            for number in range(EPOCHS + 1):
                for upstream, backfill in jobs.items():
                    change_upstream(spark, upstream, CHANGES, number)
                    measured = measure(engine, backfill)
                    assert measured is not None
                    epochs += [measured] if number else []
            spark.stop()
        report(console, strategy, epochs)


def report(console: Console, strategy: str, epochs: list[Epoch]) -> None:
    """Print medians and their ratios to the smallest upstream."""
    table = Table(title=f"{strategy}: one epoch of {CHUNK:,} rows, median of {EPOCHS}")
    table.add_column("figure")
    for factor in FACTORS:
        table.add_column(f"{ROWS * factor:,} rows", justify="right")
    for figure, shape in (("inject_seconds", ",.3f"), ("run_seconds", ",.3f"), ("bytes_read", ",.0f")):
        medians = [
            statistics.median(getattr(epoch, figure) for epoch in epochs if epoch.name == f"times_{factor}")
            for factor in FACTORS
        ]
        cells = [f"{median:{shape}} ({median / medians[0]:.2f})" for median in medians]
        table.add_row(figure, *cells)
    console.print(table)
    console.print(f"every figure: {save(f'growth_{strategy}', epochs)}")
