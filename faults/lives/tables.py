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
from faults.joins.rows import JoinedRows
from faults.joins.tables import JoinedTable
from faults.played_table import PlayedTable
from faults.shapes.case import Case
from faults.shapes.rows import Row, Rows
from faults.shapes.truth import PINNED
from faults.shapes.writers import frame

UPSTREAM = "upstream"
"""The name of the table of a view over one."""

Changes = tuple[tuple[str, str], ...]
"""Changes one after the other: the name of a table, and the kind of the change."""


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
        columns = ", ".join(f"{column.name} {column.type} {column.clause}".strip() for column in self.case.columns)
        return f"{self.name} ({columns}) by {', '.join(self.key)}, {self.case.rows} rows of {self.case.writer}"


class PlayedTables:
    """
    Tables that change, and their rows as of each version.

    :param drawn: the tables.
    :param spark: any session; writers get new ones, and so do the queries.
    :param folder: an empty folder.
    """

    def __init__(self, drawn: Sequence[DrawnTable], spark: SparkSession, folder: Path) -> None:
        self.session = spark.newSession()
        for name, value in PINNED.items():
            self.session.conf.set(name, value)
        self._drawn = tuple(drawn)
        self._versions: dict[str, dict[int, tuple[Row, ...]]] = {one.name: {} for one in drawn}
        self._moments: list[dict[str, tuple[Row, ...]]] = []
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
    def definition(self) -> dict[str, Any]:
        """The fields of a job that name the tables."""
        upstreams = {one.name: {"path": str(self._tables[one.name].path), "key": one.key} for one in self._drawn}
        return {"upstream": upstreams[UPSTREAM]} if UPSTREAM in upstreams else {"upstreams": upstreams}

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
        rows = {
            name: known[max(version for version in known if version <= versions[name])]
            for name, known in self._versions.items()
        }
        return self._over(query, rows)

    def is_failing(self, queries: Iterable[str]) -> bool:
        """Return whether Spark fails on any query over the rows that the tables had at any moment."""
        for query in queries:
            for rows in reversed(self._moments):
                try:
                    self._over(query, rows).collect()
                except PySparkException:
                    return True
        return False

    def _record(self, name: str, version: int, rows: tuple[Row, ...]) -> None:
        self._versions[name][version] = rows
        newest = {table: known[max(known)] for table, known in self._versions.items() if known}
        if len(newest) == len(self._drawn):
            self._moments.append(newest)

    def _over(self, query: str, rows: Mapping[str, tuple[Row, ...]]) -> DataFrame:
        for one in self._drawn:
            frame(self.session, one.case.columns, rows[one.name]).createOrReplaceTempView(one.name)
        return self.session.sql(query)
