"""Where the time of a warm epoch of groups goes, on a tenth of the sales: ``make bench ARGS=groups_profile``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from bench.epoch_profile import report_last_epochs
from bench.figures import MEDIUM
from bench.groups.main import GROUPED, SALES_PER_PRODUCT
from bench.groups.views import view_of
from bench.kept_view import KeptView
from bench.race import CHANGES, SIZES
from bench.sales import Sales


def main(console: Console) -> None:
    """Print the jobs of the last epoch of each view, and the places that took its time."""
    console.print(f"{SIZES[MEDIUM]:,} sales, {CHANGES[MEDIUM]:,} of them changed")
    report_last_epochs(
        console, _views, lambda spark, folder, number: _sales(folder).change(spark, CHANGES[MEDIUM], number)
    )


def _sales(folder: Path) -> Sales:
    return Sales(folder / "sales", SIZES[MEDIUM], {"product_id": SIZES[MEDIUM] // SALES_PER_PRODUCT})


def _views(spark: SparkSession, folder: Path) -> Sequence[KeptView]:
    sales = _sales(folder)
    sales.make(spark)
    return [view_of(kind, sales.path) for kind in GROUPED]
