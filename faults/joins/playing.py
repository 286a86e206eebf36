"""Play a case: its tables change between the epochs of its job, and the view is then the query."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import QueryFailedError
from faults.joins.case import Changes, JoinsCase
from faults.joins.played_job import PlayedJob
from faults.joins.rows import JoinedRows
from faults.joins.truth import JoinsTruth
from faults.played_table import PlayedTable


class Game:
    """
    Plays one case.

    :param case: the drawn case.
    :param spark: any session; writers, the engine and the truth get new ones.
    :param folder: an empty folder.
    """

    def __init__(self, case: JoinsCase, spark: SparkSession, folder: Path) -> None:
        self._gaps = case.gaps
        self.truth = JoinsTruth(case.tables, case.query.text, spark.newSession(), folder / "truth")
        self._tables = {
            table.name: PlayedTable(
                table.upstream,
                JoinedRows(table),
                spark=spark,
                path=folder / f"table-{number}",
                record=partial(self.truth.record, table.name),
            )
            for number, table in enumerate(case.tables)
        }
        paths = {name: table.path for name, table in self._tables.items()}
        self.job = PlayedJob(case, self.truth, spark=spark, folder=folder / "job", paths=paths)

    def play(self) -> None:
        """
        Play the case to its end; raise what is wrong.

        :raises QueryFails: if the query itself fails.
        """
        for table in self._tables.values():
            table.make()
        try:
            self.job.create()
            for gap in self._gaps:
                self._change(gap)
                self.job.some_epochs()
            self.job.end()
        except QueryFailedError as error:
            self.truth.require_failing([self.job.case.query.text], error)

    def _change(self, gap: Changes) -> None:
        for name, kind in gap:
            self._tables[name].change(kind)
