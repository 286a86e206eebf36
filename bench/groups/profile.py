"""
Where the time of a warm epoch of groups goes: ``make bench ARGS=groups_profile``.

A tenth of the sales of ``groups`` change a few times, and each view follows. The last epoch of each is looked at; see
:mod:`bench.epoch_profile`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.epoch_profile import Profile, event_log, jobs_of
from bench.figures import MEDIUM
from bench.groups.main import GROUPED, SALES_PER_PRODUCT
from bench.groups.views import view_of
from bench.race import CHANGES, MEMORY, ROUNDS, SIZES, is_contestant
from bench.sales import Sales


def main(console: Console) -> None:
    """Print the jobs of the last epoch of each view, and the places that took its time."""
    rows = SIZES[MEDIUM]
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder, log = Path(name), Path(name, "events")
        log.mkdir()
        spark = start_session("bench", conf={"spark.driver.memory": MEMORY, **event_log(log)})
        engine = SparkEngine(spark)
        sales = Sales(folder / "sales", rows, {"product_id": rows // SALES_PER_PRODUCT})
        sales.make(spark)
        views = [view_of(kind, sales.path) for kind in GROUPED if is_contestant(kind)]
        for view in views:
            view.folder.mkdir()
            view.load(engine)
        for number in range(ROUNDS):
            sales.change(spark, CHANGES[MEDIUM], number + 1)
            profiles = [Profile.of(view.kind, lambda view=view: view.run_epochs(engine)) for view in views]  # type: ignore[misc]
        # The end of the session writes what is left of the log.
        spark.stop()
        jobs = jobs_of(next(log.iterdir()))
    console.print(f"{rows:,} sales, {CHANGES[MEDIUM]:,} of them changed")
    for profile in profiles:
        profile.report(console, jobs)
