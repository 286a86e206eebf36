"""Play a case: the upstream changes between the epochs of its jobs, and each view is then its query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from faults.groups.case import GroupsCase
from faults.groups.played_job import PlayedJob
from faults.groups.rows import MovingRows
from faults.groups.tables import values_of
from faults.played_table import PlayedTable
from faults.shapes.rows import Row
from faults.shapes.truth import Truth


class Game:
    """
    Plays one case.

    :param case: the drawn case.
    :param spark: any session; the upstream's writer, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, case: GroupsCase, spark: SparkSession, folder: Path) -> None:
        self._gaps = case.upstream.gaps
        path = folder / "upstream"
        rows = MovingRows(case.upstream, values_of(case.table))
        self._table = PlayedTable(case.upstream, rows, spark=spark, path=path, record=self._record)
        engine, truths = SparkEngine(spark.newSession()), spark.newSession()
        self.jobs = [
            PlayedJob(
                job,
                Truth(replace(case.upstream, job={"query": job.query}), truths),
                engine=engine,
                spark=spark,
                folder=folder / f"job-{number}",
                upstream=path,
            )
            for number, job in enumerate(case.jobs)
        ]

    def play(self) -> None:
        """Play all jobs to their ends; raise what is wrong."""
        self._table.make()
        for job in self.jobs:
            job.create()
        for gap in self._gaps:
            for kind in gap.changes:
                self._table.change(kind)
            for job in self.jobs:
                job.some_epochs()
        for job in self.jobs:
            job.end()

    def _record(self, version: int, rows: tuple[Row, ...]) -> None:
        for job in self.jobs:
            job.truth.record(version, rows)
