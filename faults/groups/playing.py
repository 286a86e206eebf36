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
from faults.shapes.case import Gap
from faults.shapes.truth import Truth
from faults.shapes.writers import DeltaRsWriter, SparkWriter, Writer, newest_version


class Game:
    """
    Plays one case.

    :param case: the drawn case.
    :param spark: any session; the upstream's writer, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, case: GroupsCase, spark: SparkSession, folder: Path) -> None:
        self._upstream = case.upstream
        self._path = folder / "upstream"
        self._rows = MovingRows(case.upstream, values_of(case.table))
        self._now = self._rows.begin(case.upstream.rows)
        self._writer: Writer = (
            DeltaRsWriter(case.upstream, self._path)
            if case.upstream.writer == "delta-rs"
            else SparkWriter(case.upstream, spark.newSession(), self._path)
        )
        engine, truths = SparkEngine(spark.newSession()), spark.newSession()
        self.jobs = [
            PlayedJob(
                job,
                Truth(replace(case.upstream, job={"query": job.query}), truths),
                engine=engine,
                spark=spark,
                folder=folder / f"job-{number}",
                upstream=self._path,
            )
            for number, job in enumerate(case.jobs)
        ]

    def play(self) -> None:
        """Play all jobs to their ends; raise what is wrong."""
        self._make()
        for job in self.jobs:
            job.create()
        for gap in self._upstream.gaps:
            self._change(gap)
            for job in self.jobs:
                job.some_epochs()
        for job in self.jobs:
            job.end()

    def _make(self) -> None:
        rows = list(self._now)
        size = -(-len(rows) // self._upstream.files) or 1
        self._writer.make([rows[start : start + size] for start in range(0, len(rows), size)] or [[]])
        self._remember()

    def _change(self, gap: Gap) -> None:
        for kind in gap.changes:
            change = self._rows.change(kind, self._now)
            if change.pairs or kind == "rewrite":
                self._writer.write(kind, change)
                self._now = change.after
                self._remember()

    def _remember(self) -> None:
        for job in self.jobs:
            job.truth.record(newest_version(self._path), self._now)
