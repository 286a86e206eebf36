"""A table of a case: a writer makes it and changes it, and somebody remembers the rows of each of its versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from faults.shapes.case import Case
from faults.shapes.rows import Row, Rows
from faults.shapes.writers import DeltaRsWriter, SparkWriter, Writer, newest_version

Record = Callable[[int, tuple[Row, ...]], None]
"""Remembers the rows of a version."""


class PlayedTable:
    """
    A table and its rows.

    :param case: the drawn table.
    :param rows: draws its rows and their changes.
    :param spark: any session; a writer on Spark gets a new one.
    :param path: the table's folder.
    :param record: is told each version.
    """

    def __init__(self, case: Case, rows: Rows, *, spark: SparkSession, path: Path, record: Record) -> None:
        self.path = path
        self._case = case
        self._rows = rows
        self._now: tuple[Row, ...] = ()
        self._writer: Writer = (
            DeltaRsWriter(case, path) if case.writer == "delta-rs" else SparkWriter(case, spark.newSession(), path)
        )
        self._record = record

    @property
    def newest(self) -> int:
        """The newest version."""
        return newest_version(self.path)

    def make(self) -> None:
        """Make the table with its first rows."""
        rows = list(self._rows.begin(self._case.rows))
        size = -(-len(rows) // self._case.files) or 1
        self._writer.make([rows[start : start + size] for start in range(0, len(rows), size)] or [[]])
        self._remember(tuple(rows))

    def change(self, kind: str) -> None:
        """Commit a change, if there is anything to change."""
        change = self._rows.change(kind, self._now)
        if change.pairs or kind == "rewrite":
            self._writer.write(kind, change)
            self._remember(change.after)

    def _remember(self, rows: tuple[Row, ...]) -> None:
        self._now = rows
        self._record(self.newest, rows)
