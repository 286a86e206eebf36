"""The tables that a view of a case reads, and what a query gives over the rows that the case keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from faults.groups.rows import MovingRows
from faults.groups.tables import Table, values_of
from faults.joins.case import Changes
from faults.joins.rows import JoinedRows
from faults.joins.tables import JoinedTable
from faults.played_table import PlayedTable
from faults.shapes.case import Case
from faults.shapes.rows import Row, Rows
from faults.table_histories import TableHistories, TableRows

UPSTREAM = "upstream"
"""The name of the table of a view over one."""


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """
    A table.

    :param name: its name in queries.
    :param table: its columns, by what queries do with them.
    :param case: its writer, its key and its first rows.
    """

    name: str
    table: Table | JoinedTable
    case: Case

    @property
    def key(self) -> list[str]:
        """The columns of its key."""
        return [name for name, _ in self.case.key]

    def rows(self) -> Rows:
        """Return what draws its rows and their changes."""
        if isinstance(self.table, JoinedTable):
            return JoinedRows(self.table)
        return MovingRows(self.case, values_of(self.table))

    def __str__(self) -> str:
        """Return the table in one line."""
        return self.case.described(self.name)


def upstreams_of(tables: Iterable[DrawnTable], folder: Path) -> dict[str, Any]:
    """Return the fields of a job that name its tables, each in a folder of its name."""
    upstreams = {one.name: {"path": str(folder / one.name), "key": one.key} for one in tables}
    return {"upstream": upstreams[UPSTREAM]} if UPSTREAM in upstreams else {"upstreams": upstreams}


class PlayedTables:
    """
    Tables that change, and their rows as of each version.

    :param drawn: the tables.
    :param spark: any session; writers get new ones, and so do the queries.
    :param folder: an empty folder.
    """

    def __init__(self, drawn: Sequence[DrawnTable], spark: SparkSession, folder: Path) -> None:
        self._drawn, self._folder = tuple(drawn), folder
        self._histories = TableHistories({one.name: one.case for one in drawn}, spark.newSession())
        self._moments: list[TableRows] = []
        self._tables = {
            one.name: PlayedTable(
                one.case,
                one.rows(),
                spark=spark,
                path=folder / one.name,
                record=partial(self._record, one.name),
            )
            for one in drawn
        }

    @property
    def session(self) -> SparkSession:
        """A session that knows nothing of the package."""
        return self._histories.spark

    @property
    def definition(self) -> dict[str, Any]:
        """The fields of a job that name the tables."""
        return upstreams_of(self._drawn, self._folder)

    @property
    def newest(self) -> dict[str, int]:
        """The newest version of each table."""
        return {name: table.newest for name, table in self._tables.items()}

    def make(self) -> None:
        """Make all tables."""
        for table in self._tables.values():
            table.make()

    def change(self, changes: Changes) -> None:
        """Commit changes."""
        for name, kind in changes:
            self._tables[name].change(kind)

    def result(self, query: str, versions: Mapping[str, int]) -> DataFrame:
        """Return what Spark computes for a query over the rows of each table as of a version of it."""
        return self._histories.result(query, self._histories.rows_at(versions))

    def is_failing(self, queries: Iterable[str]) -> bool:
        """Return whether Spark fails on any query over the rows that the tables had at any moment."""
        for query in queries:
            for rows in reversed(self._moments):
                try:
                    self._histories.result(query, rows).collect()
                except PySparkException:
                    return True
        return False

    def _record(self, name: str, version: int, rows: tuple[Row, ...]) -> None:
        self._histories.record(name, version, rows)
        newest = self._histories.newest()
        if len(newest) == len(self._drawn):
            self._moments.append(newest)
