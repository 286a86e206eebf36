"""The tables that a view of a case reads, and what a query gives over the rows that the case keeps of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.errors import QueryFailedError
from faults.groups.rows import MovingRows
from faults.groups.tables import Table, values_of
from faults.joins.case import Changes
from faults.joins.rows import JoinedRows
from faults.joins.tables import JoinedTable
from faults.played_table import PlayedTable
from faults.shapes.case import Case
from faults.shapes.rows import Rows
from faults.table_histories import TableHistories

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
        self._tables = {
            one.name: PlayedTable(
                one.case,
                one.rows(),
                spark=spark,
                path=folder / one.name,
                record=partial(self._histories.record, one.name),
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

    def require_failing(self, queries: Iterable[str], error: QueryFailedError) -> NoReturn:
        """End a case in which a query failed on a row; see :meth:`TableHistories.require_failing`."""
        self._histories.require_failing(queries, error)
