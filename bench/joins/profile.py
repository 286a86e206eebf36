"""Where the time of a warm epoch of a join goes, on a tenth of the sales: ``make bench ARGS=joins_profile``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from bench.epoch_profile import report_last_epochs
from bench.figures import LARGE, MEDIUM
from bench.joins.main import KINDS
from bench.joins.star import Star
from bench.joins.views import view_of
from bench.kept_view import KeptView
from bench.race import CHANGES, SIZES


def main(console: Console) -> None:
    """Print the jobs of the last epoch of each view, and the places that took its time."""
    console.print(f"{SIZES[MEDIUM]:,} sales, {CHANGES[MEDIUM]:,} of them changed")
    report_last_epochs(
        console, _views, lambda spark, folder, number: _star(folder).sales.change(spark, CHANGES[MEDIUM], number)
    )


def _star(folder: Path) -> Star:
    return Star(folder / "star", SIZES[MEDIUM])


def _views(spark: SparkSession, folder: Path) -> Sequence[KeptView]:
    star = _star(folder)
    star.make(spark)
    return [view_of(kind, star) for kind in KINDS[LARGE]]
