"""
The long run: ``make bench ARGS=soak``, about an hour and a half.

It runs ``BENCH_SOAK_EPOCHS`` epochs over ``BENCH_SOAK_ROWS`` rows. Every figure is in ``.bench/soak.json``, even if the
run ends early.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.measuring import save_figures, session
from bench.soak.long_run import LongRun
from bench.soak.report import report

RUN = LongRun(
    epochs=int(os.environ.get("BENCH_SOAK_EPOCHS", "1000")),
    rows=int(os.environ.get("BENCH_SOAK_ROWS", "20000")),
    strategy=os.environ.get("BENCH_SOAK_STRATEGY", "no_shuffle"),
)


def main(console: Console) -> None:
    """Run all epochs, and report which figures stayed flat."""
    spark = session()
    samples: list[dict[str, Any]] = []
    results = {"strategy": RUN.strategy, "rows": RUN.rows, "block": RUN.block, "samples": samples}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as folder:
        for sample in RUN.samples(spark, Path(folder)):
            samples.append(asdict(sample))
            if sample.epoch % RUN.block == 0:
                save_figures("soak", results)
                minutes = (time.monotonic() - started) / 60
                console.print(f"{sample.epoch:,} of {RUN.epochs:,} epochs after {minutes:.0f} minutes")
    spark.stop()
    path = save_figures("soak", results)
    report(console, results)
    console.print("the view equals its query")
    console.print(f"every figure: {path}")
