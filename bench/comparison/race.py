"""The comparison itself: all contestants on every workload, several rounds, in alternating order, results verified."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from bench.comparison.contestants import Contestant
from bench.comparison.peers import query
from bench.comparison.stage import Stage
from bench.comparison.workload import Workload, make_history


@dataclass(frozen=True, slots=True)
class Run:
    """
    The time of one contestant in one round.

    :param steps: seconds of its epochs, batches or tasks.
    """

    workload: str
    contestant: str
    round: int
    seconds: float
    steps: tuple[float, ...]


class DifferentResultError(Exception):
    """A contestant's view differs from the query, so its time is worthless."""


def race(
    console: Console, spark: SparkSession, workload: Workload, contestants: Sequence[Contestant], rounds: int
) -> Iterator[Run]:
    """
    Let all contestants run once per round; the order is reversed in every second round.

    :raises DifferentResultError: if a view is wrong.
    """
    with _folder() as folder:
        history = folder / "history"
        console.print(f"{workload.name}: making {workload.rows:,} rows and {workload.epochs} commits …")
        make_history(spark, history, workload)
        expected = fingerprint(query(spark.read.format("delta").load(str(history))))
        for number in range(rounds):
            for contestant in contestants if number % 2 == 0 else reversed(contestants):
                run = _run(spark, workload, contestant, number, history, expected)
                console.print(f"  round {number + 1}: {contestant.name} {run.seconds:.1f} s")
                yield run


def _run(
    spark: SparkSession,
    workload: Workload,
    contestant: Contestant,
    number: int,
    history: Path,
    expected: tuple[object, ...],
) -> Run:
    with _folder(history.parent) as folder:
        stage = Stage(spark, workload, history, folder)
        # Spark frees what earlier contestants kept, such as the sources of a MERGE, only after Java has collected it.
        spark.catalog.clearCache()
        spark.sparkContext._jvm.System.gc()  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way
        with stage.timed():
            contestant.run(stage)
        assert not stage.commit(), f"{contestant.name} did not wait for all commits"
        found = fingerprint(spark.read.format("delta").load(str(stage.view)))
        if found != expected:
            raise DifferentResultError(f"{contestant.name} on {workload.name}: {found} instead of {expected}")
        return Run(workload.name, contestant.name, number, stage.seconds, tuple(stage.steps))


def fingerprint(rows: DataFrame) -> tuple[object, ...]:
    """Return the fingerprint of a table: its number of rows, and sums of their hashes."""
    names = ", ".join(rows.columns)
    return tuple(
        rows.selectExpr(f"xxhash64({names}) AS one", f"hash({names}) AS other")
        .selectExpr("count(*)", "sum(CAST(one AS DECIMAL(38,0)))", "sum(CAST(other AS BIGINT))")
        .collect()[0]
    )


@contextmanager
def _folder(parent: Path | None = None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
