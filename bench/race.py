"""
A race of views in one warm session: epochs against one statement that computes the whole view, in turns.

In the end every view must equal the computed table.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.figures import (
    COMPUTED,
    COMPUTED_FIRST,
    EPOCH,
    FIRST_LOAD,
    LARGE,
    MEDIUM,
    PIPELINE,
    SMALL,
    Figure,
    coefficients,
)
from bench.kept_view import KeptView
from bench.measuring import save_figures
from bench.pipelines import refreshes
from bench.target import Target

ROWS = int(os.environ.get("BENCH_ROWS", "20000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
MEMORY = os.environ.get("BENCH_MEMORY", "6g")

SIZES = {SMALL: ROWS // 16, MEDIUM: ROWS // 10, LARGE: ROWS}
"""Rows by the size's name."""

CHANGES = {SMALL: ROWS // 1000, MEDIUM: ROWS // 10_000, LARGE: ROWS // 1000}
"""Rows that change between two epochs: 0.1 %, and as many in the smallest upstream as in the largest one."""

WARM_UP = "warm-up"
"""The name of the size of what only warms the session up."""


@dataclass
class Race:
    """
    Everything that is measured in one session.

    :param folder: for the tables.
    """

    spark: SparkSession
    engine: SparkEngine
    folder: Path
    console: Console
    figures: list[Figure] = field(default_factory=list)

    def note(self, what: str, size: str, kind: str, seconds: float) -> None:
        """Keep a figure, and print it."""
        self.figures.append(Figure(what, size, kind, seconds))
        self.console.print(f"  {size} {kind}: {what} {seconds:.1f} s")

    def load(self, view: KeptView, size: str) -> None:
        """Create a view, and read its history; compute its result before and after, for comparison."""
        view.folder.mkdir()
        self.note(COMPUTED_FIRST, size, view.kind, view.compute(self.spark))
        self.note(FIRST_LOAD, size, view.kind, sum(view.load(self.engine)))
        self.note(COMPUTED_FIRST, size, view.kind, view.compute(self.spark))

    def follow(self, view: KeptView, size: str, number: int) -> None:
        """
        Bring a view up to date in both ways.

        :param number: the number of the round. Every second one reverses the order of the ways; 0 warms up, and does
            not count.
        """
        ways: list[tuple[str, Callable[[], float]]] = [
            (EPOCH, lambda: sum(view.run_epochs(self.engine))),
            (COMPUTED, lambda: view.compute(self.spark)),
        ]
        for what, way in ways if number % 2 else ways[::-1]:
            self.note(counted(what, number), size, view.kind, way())

    def require_equal(self, views: Sequence[KeptView]) -> None:
        """
        Compute all views once more, and compare.

        :raises AssertionError: if a view differs.
        """
        for view in views:
            view.compute(self.spark)
            view.require_equal(self.spark)
        self.console.print("all views equal the computed tables")

    def pipelines(self, view: KeptView, size: str) -> None:
        """Let Spark Declarative Pipelines refresh the same view; this ends the session."""
        self.spark.stop()
        for number, seconds in enumerate(refreshes(view.statement, self.folder, memory=MEMORY, rounds=ROUNDS + 1)):
            self.note(counted(PIPELINE, number), size, view.kind, seconds)


def counted(what: str, number: int) -> str:
    """Return the name of what was done in a round; the first one only warms up."""
    return what if number else f"{what} ({WARM_UP})"


@contextmanager
def race(console: Console) -> Iterator[Race]:
    """Start a session, with a folder that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        spark = start_session("bench", conf={"spark.driver.memory": MEMORY})
        try:
            yield Race(spark, SparkEngine(spark), Path(name), console)
        finally:
            spark.stop()


def report(
    console: Console, name: str, figures: Sequence[Figure], targets: Sequence[Target], kinds: Sequence[str]
) -> None:
    """
    Print the medians, compare the ratios with the targets, and print what epochs cost.

    :param name: the name of the benchmark.
    :param kinds: the views of which all sizes were measured.
    """
    results = {"rows": ROWS, "figures": [asdict(figure) for figure in figures]}
    path = save_figures(name, results)
    table = Table("", "view", "figure", "seconds", title=f"{ROWS:,} sales, medians of {ROUNDS}")
    for key in dict.fromkeys((figure.size, figure.kind, figure.what) for figure in figures):
        found = [figure.seconds for figure in figures if (figure.size, figure.kind, figure.what) == key]
        table.add_row(*key, f"{statistics.median(found):.1f}")
    console.print(table)
    verdicts = Table("", "target", "measured", "")
    for target in targets:
        verdicts.add_row(*target.row(target.figure(results)))
    console.print(verdicts)
    console.print("an epoch in rows that computing all reads meanwhile, for EPOCH_COSTS of core/refresh_cost.py:")
    for kind in kinds:
        console.print(f"  {kind}: {coefficients(results, kind, CHANGES, SIZES).entry}")
    console.print(f"every figure: {path}")
