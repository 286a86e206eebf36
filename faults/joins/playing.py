"""Play a case: its tables change between the epochs of its job, and the view is then the query."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from faults.joins.case import Changes, JoinsCase
from faults.joins.played_job import PlayedJob
from faults.joins.rows import JoinedRows
from faults.joins.tables import JoinedTable
from faults.joins.truth import JoinsTruth
from faults.shapes.rows import Row
from faults.shapes.writers import DeltaRsWriter, SparkWriter, Writer, newest_version


class PlayedTable:
    """
    A table and its rows.

    :param table: the table.
    :param spark: a session for its writer.
    :param path: its folder.
    :param truth: where its rows are remembered.
    """

    def __init__(self, table: JoinedTable, *, spark: SparkSession, path: Path, truth: JoinsTruth) -> None:
        self.path = path
        self._table = table
        self._rows = JoinedRows(table)
        self._now: tuple[Row, ...] = ()
        self._writer: Writer = (
            DeltaRsWriter(table.upstream, path)
            if table.upstream.writer == "delta-rs"
            else SparkWriter(table.upstream, spark, path)
        )
        self._truth = truth

    def make(self) -> None:
        """Make the table with its first rows."""
        rows = list(self._rows.begin(self._table.upstream.rows))
        size = -(-len(rows) // self._table.upstream.files) or 1
        self._writer.make([rows[start : start + size] for start in range(0, len(rows), size)] or [[]])
        self._remember(tuple(rows))

    def change(self, kind: str) -> None:
        """Commit a change."""
        change = self._rows.change(kind, self._now)
        if change.pairs or kind == "rewrite":
            self._writer.write(kind, change)
            self._remember(change.after)

    def _remember(self, rows: tuple[Row, ...]) -> None:
        self._now = rows
        self._truth.record(self._table.name, newest_version(self.path), rows)


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
        writers = spark.newSession()
        self._tables = {
            table.name: PlayedTable(table, spark=writers, path=folder / f"table-{number}", truth=self.truth)
            for number, table in enumerate(case.tables)
        }
        paths = {name: table.path for name, table in self._tables.items()}
        self.job = PlayedJob(case, self.truth, spark=spark, folder=folder / "job", paths=paths)

    def play(self) -> None:
        """Play the case to its end; raise what is wrong."""
        for table in self._tables.values():
            table.make()
        self.job.create()
        for gap in self._gaps:
            self._change(gap)
            self.job.some_epochs()
        self.job.end()

    def _change(self, gap: Changes) -> None:
        for name, kind in gap:
            self._tables[name].change(kind)
