"""
Views of groups against computing the whole view again: ``make bench ARGS=groups``.

Upstreams of three sizes change between two epochs. Then each view is brought up to date by an epoch, and its result is
computed again by one statement, in turns and in one warm session. In the end all views must equal the computed tables.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.groups.pipelines import pipeline_server, refresh
from bench.groups.results import (
    ARRANGED,
    COMPUTED,
    COMPUTED_FIRST,
    EPOCH,
    FIRST_LOAD,
    LARGE,
    MEDIUM,
    PIPELINE,
    SMALL,
    TARGETS,
    Figure,
    coefficients,
)
from bench.groups.sales import change_sales, make_sales
from bench.groups.views import View
from bench.measuring import save_figures

ROWS = int(os.environ.get("BENCH_ROWS", "20000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
MEMORY = os.environ.get("BENCH_MEMORY", "6g")

SIZES = {SMALL: ROWS // 16, MEDIUM: ROWS // 10, LARGE: ROWS}
"""Rows by the size's name."""

CHANGES = {SMALL: ROWS // 1000, MEDIUM: ROWS // 10_000, LARGE: ROWS // 1000}
"""Rows that change between two epochs: 0.1 %, and as many in the smallest upstream as in the largest one."""

GROUPED = ("fold", "slice", "latest")
KINDS = {SMALL: GROUPED, MEDIUM: ("row", *GROUPED, "fold, auto"), LARGE: GROUPED}
"""The views by the size of their upstream."""

ARRANGED_EPOCHS = 20
_WARM_UP = 200_000


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
    figures: list[Figure]

    def note(self, what: str, size: str, kind: str, seconds: float) -> None:
        """Keep a figure, and print it."""
        self.figures.append(Figure(what, size, kind, seconds))
        self.console.print(f"  {size} {kind}: {what} {seconds:.1f} s")

    def upstream(self, name: str, rows: int) -> Path:
        """Make an upstream."""
        path = self.folder / name / "sales"
        self.console.print(f"making {rows:,} sales …")
        make_sales(self.spark, path, rows)
        return path

    def load(self, view: View, size: str) -> None:
        """Create a view, and read its history; compute its result before and after, for comparison."""
        view.folder.mkdir()
        self.note(COMPUTED_FIRST, size, view.kind, view.compute(self.spark))
        view.create(self.engine)
        self.note(FIRST_LOAD, size, view.kind, sum(view.run_epochs(self.engine)))
        self.note(COMPUTED_FIRST, size, view.kind, view.compute(self.spark))

    def follow(self, view: View, size: str, number: int) -> None:
        """Bring a view up to date in both ways; every second round reverses their order."""
        ways: list[tuple[str, Callable[[], float]]] = [
            (EPOCH, lambda: sum(view.run_epochs(self.engine))),
            (COMPUTED, lambda: view.compute(self.spark)),
        ]
        for what, way in ways if number % 2 else ways[::-1]:
            self.note(what if number else f"{what} (warm-up)", size, view.kind, way())


def main(console: Console) -> None:
    """Measure everything, and report."""
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        spark = start_session("bench", conf={"spark.driver.memory": MEMORY})
        race = Race(spark, SparkEngine(spark), Path(name), console, [])
        _warm_up(race)
        _arranged(race)
        views = list(_loaded(race))
        _followed(race, views)
        large = next(view for size, view in views if (size, view.kind) == (LARGE, "fold"))
        spark.stop()
        for number, seconds in enumerate(_pipelines(large.upstream, Path(name))):
            race.note(PIPELINE if number else f"{PIPELINE} (warm-up)", LARGE, "fold", seconds)
    report(console, race.figures)


def _warm_up(race: Race) -> None:
    """Let the session do everything once that is measured."""
    upstream = race.upstream("warm_up", _WARM_UP)
    for number, kind in enumerate(KINDS[MEDIUM], 1):
        view = View(kind, upstream, upstream.parent / kind)
        race.load(view, "warm-up")
        change_sales(race.spark, upstream, _WARM_UP, 200, number)
        race.follow(view, "warm-up", 0)


def _arranged(race: Race) -> None:
    """Read the history of groups, and that of rows, in twenty epochs each from a sorted copy."""
    rows = SIZES[MEDIUM]
    upstream = race.upstream("arranged", rows)
    for kind in ("row", "fold"):
        limit = rows * 21 // (20 * ARRANGED_EPOCHS)
        view = View(kind, upstream, upstream.parent / kind, {"strategy": "arrangement", "rate_limit": limit})
        view.folder.mkdir()
        view.create(race.engine)
        seconds = view.run_epochs(race.engine)
        race.note(ARRANGED, MEDIUM, kind, sum(seconds))
        view.compute(race.spark)
        view.require_equal(race.spark)


def _loaded(race: Race) -> Iterator[tuple[str, View]]:
    for size, rows in SIZES.items():
        upstream = race.upstream(size, rows)
        for kind in KINDS[size]:
            view = View(kind, upstream, upstream.parent / kind)
            race.load(view, size)
            yield size, view


def _followed(race: Race, views: Sequence[tuple[str, View]]) -> None:
    """Change the upstreams, and let all views follow; the first round warms up and does not count."""
    for number in range(ROUNDS + 1):
        for size, rows in SIZES.items():
            upstream = next(view.upstream for found, view in views if found == size)
            change_sales(race.spark, upstream, rows, CHANGES[size], number + 1)
        for size, view in views:
            race.follow(view, size, number)
    for _, view in views:
        view.compute(race.spark)
        view.require_equal(race.spark)
    race.console.print("all views equal the computed tables")


def _pipelines(upstream: Path, folder: Path) -> Iterator[float]:
    with pipeline_server(MEMORY, folder / "warehouse") as spark:
        for number in range(ROUNDS + 1):
            storage = folder / f"pipeline_{number}"
            storage.mkdir()
            yield refresh(spark, "fold", upstream, storage)


def report(console: Console, figures: Sequence[Figure]) -> None:
    """Print the medians, and compare the ratios with the targets."""
    table = Table("", "view", "figure", "seconds", title=f"{ROWS:,} sales, medians of {ROUNDS}")
    for key in dict.fromkeys((figure.size, figure.kind, figure.what) for figure in figures):
        found = [figure.seconds for figure in figures if (figure.size, figure.kind, figure.what) == key]
        table.add_row(*key, f"{statistics.median(found):.1f}")
    console.print(table)
    saved = {"rows": ROWS, "figures": [asdict(figure) for figure in figures]}
    verdicts = Table("", "target", "measured", "")
    for target in TARGETS:
        verdicts.add_row(*target.row(target.figure(saved)))
    console.print(verdicts)
    costs = Table("", "fixed", "per row", "per change", title="an epoch, in rows that computing all reads meanwhile")
    for kind in GROUPED:
        cost = coefficients(saved, kind, CHANGES, SIZES)
        costs.add_row(kind, f"{cost.fixed:,.0f}", f"{cost.row:.3f}", f"{cost.change:.1f}")
    console.print(costs)
    console.print(f"every figure: {save_figures('groups', saved)}")
