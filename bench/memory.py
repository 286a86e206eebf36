"""Measure the peak memory of an epoch's driver as the upstream grows; each epoch is a separate application."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.hooks.spark_application import application_path
from bench.comparison.contestants import PLAIN, REQUESTER, JobVariant
from bench.comparison.stage import Stage
from bench.comparison.workload import Workload, make_history
from bench.measuring import save_figures, session
from bench.submitting import submit

ROWS = int(os.environ.get("BENCH_GROWTH_ROWS", "250000"))
FACTORS = (1, 4, 16)
CHUNK = ROWS // 4
KEYS = {"no_shuffle": "ordered", "arrangement": "random"}


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak memory of one epoch's driver, including Java."""

    strategy: str
    rows: int
    peak_bytes: int


def main(console: Console) -> None:
    """Run one epoch with changes on each size, with both strategies."""
    peaks: list[Peak] = []
    table = Table("strategy", *(f"{ROWS * factor:,} rows" for factor in FACTORS), title="peak of an epoch's driver")
    for variant in PLAIN:
        spark = session()
        with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
            mine = [_peak(spark, Path(name), variant, ROWS * factor) for factor in FACTORS]
        spark.stop()
        first = mine[0].peak_bytes
        cells = [f"{peak.peak_bytes >> 20:,} MB ({peak.peak_bytes / first:.2f})" for peak in mine]
        table.add_row(variant.name, *cells)
        peaks += mine
    console.print(table)
    console.print(f"every figure: {save_figures('memory', [asdict(peak) for peak in peaks])}")


def _peak(spark: SparkSession, folder: Path, variant: JobVariant, rows: int) -> Peak:
    """Measure a job's second epoch: before the first one nothing was read, so no change goes through."""
    # The number of changes is the same for each size.
    per_mille = max(10 * ROWS // rows, 1)
    workload = Workload(KEYS[variant.name], "updates", per_mille, rows=rows, epochs=2)
    history = folder / f"history_{rows}"
    make_history(spark, history, workload)
    stage = Stage(spark, workload, history, folder / f"run_{rows}")
    backfill = JobVariant(variant.name, {**variant.fields, "rate_limit": CHUNK}).backfill(stage)
    definition = json.dumps(backfill.job.model_dump(mode="json"))
    submit(application_path("backfill_job.py"), ["create", "--job", definition, "--requested-by", "bench"])
    peak = 0
    for _ in range(2):
        stage.commit()
        barrier = protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=REQUESTER).barrier
        assert barrier is not None
        arguments = ["--state", backfill.job.state, "--epoch", str(barrier.epoch)]
        peak = submit(application_path("backfill_epoch.py"), arguments).peak_bytes
    return Peak(variant.name, rows, peak)
