"""
A backfill from PostgreSQL while the table is written to: ``make bench ARGS=cdc``.

The contestants take turns: the backfill, a plain ``COPY`` as the limit, and incremental snapshots in one thread.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.cdc.backfill import CdcBackfill, connection_to
from bench.cdc.incremental_snapshot import OPERATION, IncrementalSnapshot
from bench.cdc.load import Load, load_of, longest_transaction
from bench.cdc.merged_snapshot import MergedSnapshot, newest_of
from bench.cdc.orders import DATABASE, SCHEMA, TABLE, server_with_orders, writing
from bench.cdc.plain_copy import copy_table
from bench.cdc.results import BACKFILL, CHUNK_ROWS, CONTESTANTS, COPY, SNAPSHOT_WITH_VIEW, TARGETS, Run
from bench.comparison.race import DifferentResultError, fingerprint
from bench.measuring import save_figures, session
from tests.postgres_server import PostgresServer

ROWS = int(os.environ.get("BENCH_ROWS", "8000000"))
CHUNKS = int(os.environ.get("BENCH_EPOCHS", "1"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WRITES = float(os.environ.get("BENCH_WRITES", "100"))

_CHUNK_ROWS = ROWS * 21 // (20 * CHUNKS)
"""A twentieth above an equal share: chunks are cut by a sample, and a few rows too many would be one more chunk."""

_WARM_UP_ROWS = 500_000
"""Enough for the JVM to compile what reads and writes rows."""


@dataclass
class Race:
    """The contestants, and what they did so far."""

    console: Console
    spark: SparkSession
    server: PostgresServer
    runs: list[Run] = field(default_factory=list)

    def round(self, number: int) -> None:
        """Let each contestant run once; the order is reversed in every second round."""
        for name in CONTESTANTS if number % 2 == 0 else CONTESTANTS[::-1]:
            with _folder() as folder:
                done = self._run(name, folder)
            self.runs.append(done)
            self.console.print(f"  round {number + 1}: {name} {done.seconds:.1f} s")

    def warm_up(self) -> None:
        """Run a small backfill."""
        with self.server.connect(DATABASE) as connection, _folder() as folder:
            connection.execute("CREATE TABLE few (LIKE orders INCLUDING ALL)")
            connection.execute("INSERT INTO few SELECT * FROM orders LIMIT %s", [_WARM_UP_ROWS])
            connection.execute("ANALYZE few")
            small = CdcBackfill(SparkEngine(self.spark), folder, _WARM_UP_ROWS // 2, table="public.few")
            small.run()
            small.catch_up()

    def load(self) -> Load:
        """Run one more backfill, while nobody writes: the server does not count by its users."""
        with self.server.connect(DATABASE) as connection, _folder() as folder:
            backfill = self._new_backfill(folder)
            load = load_of(backfill.run, connection)
            backfill.catch_up()
        return load

    def _new_backfill(self, folder: Path) -> CdcBackfill:
        return CdcBackfill(SparkEngine(self.spark), folder, None if CHUNKS == 1 else _CHUNK_ROWS)

    def _run(self, name: str, folder: Path) -> Run:
        if name == BACKFILL:
            return self._backfill(folder)
        if name == COPY:
            return self._copy(folder)
        if name == SNAPSHOT_WITH_VIEW:
            return self._merged_snapshot(name, folder)
        return self._snapshot(name, folder)

    def _backfill(self, folder: Path) -> Run:
        backfill = self._new_backfill(folder)
        with writing(self.server, WRITES), longest_transaction(self.server) as ages:
            seconds = _timed(backfill.run)
        stages = tuple(backfill.stages)
        backfill.catch_up()
        self._require_same(BACKFILL, self.spark.read.format("delta").load(str(backfill.view)), folder)
        return Run(BACKFILL, seconds, stages, max(ages))

    def _copy(self, folder: Path) -> Run:
        with writing(self.server, WRITES):
            return Run(COPY, _timed(lambda: copy_table(self.server, folder / "copy")))

    def _snapshot(self, name: str, folder: Path) -> Run:
        snapshot = IncrementalSnapshot(self.server, folder / "events", CHUNK_ROWS[name])
        seconds = self._take(snapshot)
        newest = newest_of(self.spark.read.format("delta").load(str(snapshot.path)))
        self._note_difference(name, newest.filter(f"{OPERATION} <> 'd'").select(*SCHEMA.names), folder)
        return Run(name, seconds)

    def _merged_snapshot(self, name: str, folder: Path) -> Run:
        snapshot = MergedSnapshot(
            self.server, folder / "events", CHUNK_ROWS[name], spark=self.spark, view=folder / "view"
        )
        seconds = self._take(snapshot)
        self._note_difference(name, self.spark.read.format("delta").load(str(snapshot.view)), folder)
        return Run(name, seconds)

    def _take(self, snapshot: IncrementalSnapshot) -> float:
        with writing(self.server, WRITES):
            seconds = _timed(snapshot.take)
        snapshot.catch_up()
        return seconds

    def _require_same(self, name: str, rows: DataFrame, folder: Path) -> None:
        """Compare a result with the table, to which nobody writes now."""
        if difference := self._difference(rows, folder):
            raise DifferentResultError(f"{name}: {difference}")

    def _note_difference(self, name: str, rows: DataFrame, folder: Path) -> None:
        """
        Compare a peer's result with the table, and go on.

        A commit may be in the log before readers see it. Its row is then read too old, and no change comes after it.
        """
        if difference := self._difference(rows, folder):
            self.console.print(f"  {name} is not the table: {difference}")

    def _difference(self, rows: DataFrame, folder: Path) -> str:
        copy_table(self.server, folder / "expected")
        expected, found = fingerprint(self.spark.read.format("delta").load(str(folder / "expected"))), fingerprint(rows)
        return "" if found == expected else f"{found} instead of {expected}"


def main(console: Console) -> None:
    """Run all rounds, and report."""
    console.print(f"filling {TABLE} with {ROWS:,} rows …")
    with server_with_orders(ROWS) as server, connection_to(server):
        spark = session()
        race = Race(console, spark, server)
        race.warm_up()
        for number in range(ROUNDS):
            race.round(number)
        load = race.load()
        spark.stop()
    _report(console, race.runs, load)


def _report(console: Console, runs: list[Run], load: Load) -> None:
    title = f"{ROWS:,} rows in {CHUNKS} chunks, {WRITES:g} transactions a second, median of {ROUNDS} (lowest – highest)"
    table = Table("", "seconds", title=title)
    for name in CONTESTANTS:
        seconds = [run.seconds for run in runs if run.contestant == name]
        table.add_row(name, f"{statistics.median(seconds):.1f} ({min(seconds):.1f} – {max(seconds):.1f})")
    console.print(table)
    figures = {
        "rows": ROWS,
        "chunks": CHUNKS,
        "writes": WRITES,
        "runs": [asdict(run) for run in runs],
        "load": asdict(load),
    }
    verdicts = Table("", "target", "measured", "")
    for target in TARGETS:
        verdicts.add_row(*target.row(target.figure(figures)))
    console.print(verdicts)
    console.print("the backfill equals the table, and so do the peers for which nothing else is said")
    console.print(f"every figure: {save_figures('cdc', figures)}")


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
