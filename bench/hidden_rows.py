"""
What it costs to leave out the rows that deletion vectors hide: ``make bench ARGS=hidden_rows``.

A table with deletion vectors is read as Spark reads it, and as this package does: all of its rows, and the changes of
its last DELETE, which are kept on disk.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.sources.shared.hidden_rows import without_file_metadata
from airflow_backfill_provider.spark.kept_changes import kept_changes, kept_rows
from bench.measuring import save_figures, session
from bench.race import ROUNDS, ROWS

_ROWS_PER_FILE = 1_000_000
_ONE_OF = 10_000
"""One row of so many is deleted."""


def main(console: Console) -> None:
    """Measure both in turns, and print the ratios."""
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        spark = session()
        path = str(Path(name, "sales"))
        _make(spark, path)
        rows = spark.read.format("delta").load(path)
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
        ways: dict[str, dict[str, Callable[[], float]]] = {
            "all rows": {"Spark": lambda: _seconds(rows), "ours": lambda: _seconds(without_file_metadata(rows))},
            "changes": {
                "Spark": lambda: _kept_seconds(feed, kept_rows),
                "ours": lambda: _kept_seconds(feed, kept_changes),
            },
        }
        found = {
            what: {who: [way() for _ in range(ROUNDS + 1)][1:] for who, way in of.items()} for what, of in ways.items()
        }
        spark.stop()
    table = Table("what is read", "Spark", "ours", "times faster", title=f"{ROWS:,} rows, medians of {ROUNDS}")
    for what, of in found.items():
        spark_s, ours = (statistics.median(of[who]) for who in ("Spark", "ours"))
        table.add_row(what, f"{spark_s:.1f} s", f"{ours:.1f} s", f"{spark_s / ours:.2f}")
    console.print(table)
    console.print(f"every figure: {save_figures('hidden_rows', found)}")


def _make(spark: SparkSession, path: str) -> None:
    (
        spark.range(0, ROWS, 1, max(ROWS // _ROWS_PER_FILE, 1))
        .selectExpr("id AS sale_id", "pmod(xxhash64(id), 2000000) AS product_id", "CAST(id AS DECIMAL(12,2)) AS amount")
        .write.format("delta")
        .option("delta.enableChangeDataFeed", "true")
        .option("delta.enableDeletionVectors", "true")
        .save(path)
    )
    for seed in (1, 2):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE pmod(xxhash64(sale_id, {seed}), {_ONE_OF}) = 0")


def _seconds(rows: DataFrame) -> float:
    """Return how long it takes to read rows of which hardly any is wanted."""
    started = time.perf_counter()
    rows.filter("product_id = 17").count()
    return time.perf_counter() - started


def _kept_seconds(changes: DataFrame, keep: Callable[[DataFrame, ExitStack], DataFrame]) -> float:
    with ExitStack() as opened:
        started = time.perf_counter()
        keep(changes, opened).count()
        return time.perf_counter() - started
