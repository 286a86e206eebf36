"""
The time from the submission of an application to its first commit: an epoch of this package, and a plain application.

The plain application follows the documentation of Delta Lake: Spark's default settings, the packages by their
coordinates (resolved before, so that nothing is downloaded), an append. Both applications read the same few rows.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications import class_archive
from airflow_backfill_provider.applications.collector import SERIAL
from airflow_backfill_provider.applications.spark_settings import (
    DELTA_PACKAGE,
    FIRST_COMPILER_ALONE,
    jars_folder,
    java_command,
    spark_conf,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.hooks.spark_application import application_path
from airflow_backfill_provider.jobs.backfill import Backfill
from bench.measuring import RESULTS, save_figures
from bench.submitting import MASTER, Submission, submit

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ROWS = 10_000
QUERY = "SELECT id, amount FROM upstream WHERE amount > 10"

PLAIN_CONF = {
    "spark.jars.packages": DELTA_PACKAGE,
    "spark.jars.ivy": str((RESULTS / "ivy").absolute()),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# The other driver options that this package sets for so few rows.
WITHOUT_ARCHIVE = {"spark.driver.defaultJavaOptions": f"{FIRST_COMPILER_ALONE} {SERIAL}"}
JAVAS_COLLECTOR = {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}


@dataclass(frozen=True, slots=True)
class Start:
    """
    One application.

    :param to_first_commit: seconds from its submission to its first commit of rows.
    :param seconds: seconds to its end.
    :param cpu_seconds: its processor time; more reliable than the clock on a busy machine.
    :param peak_bytes: the peak memory of its driver.
    """

    name: str
    to_first_commit: float
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def main(console: Console) -> None:
    """Start the applications in turns."""
    starts: list[Start] = []
    for number in range(ROUNDS + 1):
        for name, start in STARTS.items():
            with tempfile.TemporaryDirectory(prefix="backfill-bench-") as folder:
                submission, view = start(Path(folder))
                committed_at = max(commit.stat().st_mtime for commit in (view / "_delta_log").glob("*.json"))
            # The first round resolves packages and fills the machine's caches.
            if number:
                starts.append(_start(name, submission, committed_at))
    table = Table("application", "to first commit", "times plain", "in all", "CPU", "peak MB", title="cold start")
    plain = _median(starts, "plain", "to_first_commit")
    for name in STARTS:
        first, seconds, cpu, peak = (
            _median(starts, name, figure) for figure in ("to_first_commit", "seconds", "cpu_seconds", "peak_bytes")
        )
        table.add_row(
            name, f"{first:.1f}", f"{first / plain:.2f}", f"{seconds:.1f}", f"{cpu:.1f}", f"{peak / 2**20:.0f}"
        )
    console.print(table)
    archive = class_archive.archive_path(jars_folder(), java_command())
    if archive is None or not archive.exists():
        console.print("there is no archive of classes; airflow-backfill archive-classes makes one")
    console.print(f"every figure: {save_figures('cold_start', [asdict(start) for start in starts])}")


def _start(name: str, submission: Submission, committed_at: float) -> Start:
    to_first_commit = committed_at - submission.begun_at
    return Start(name, to_first_commit, submission.seconds, submission.cpu_seconds, submission.peak_bytes)


def _median(starts: list[Start], name: str, figure: str) -> float:
    return float(statistics.median(getattr(start, figure) for start in starts if start.name == name))


def plain(folder: Path) -> tuple[Submission, Path]:
    """Start the plain application."""
    upstream, view = _make_upstream(folder), folder / "view"
    application = Path(__file__).with_name("plain_application.py")
    return submit(application, [str(upstream), str(view), QUERY], PLAIN_CONF), view


def epoch(folder: Path, conf: dict[str, str], *, rows: int | None = ROWS) -> tuple[Submission, Path]:
    """
    Start the application of a job's first epoch.

    :param conf: Spark configuration in addition to this package's.
    :param rows: the number of rows that the settings assume.
    """
    view = folder / "view"
    job = BackfillJob(
        name="bench",
        upstream={"path": str(_make_upstream(folder)), "key": ["id"]},
        materialized_view=str(view),
        query=QUERY,
        strategy="no_shuffle",
        state=str(folder / "state"),
    )
    definition = json.dumps(job.model_dump(mode="json"))
    submit(application_path("backfill_job.py"), ["create", "--job", definition, "--requested-by", "bench"])
    backfill = Backfill(job)
    barrier = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="bench")
    ).barrier
    assert barrier is not None
    settings = spark_conf(MASTER, conf, rows=rows)
    arguments = ["--state", job.state, "--epoch", str(barrier.epoch)]
    return submit(application_path("backfill_epoch.py"), arguments, settings), view


def _make_upstream(folder: Path) -> Path:
    rows = pa.table({"id": range(ROWS), "amount": range(ROWS)})
    write_deltalake(folder / "upstream", rows, configuration={"delta.enableChangeDataFeed": "true"})
    return folder / "upstream"


STARTS: dict[str, Callable[[Path], tuple[Submission, Path]]] = {
    "plain": plain,
    "epoch": lambda folder: epoch(folder, {}),
    "epoch without an archive of classes": lambda folder: epoch(folder, WITHOUT_ARCHIVE),
    "epoch with Java's own collector": lambda folder: epoch(folder, JAVAS_COLLECTOR),
    "epoch as for many rows": lambda folder: epoch(folder, {}, rows=None),
}
