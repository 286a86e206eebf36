"""
The expected view: the verbatim query over the rows that a case keeps of each table, as of the pinned versions.

Spark computes it in a session of its own, and DataFusion computes it once more where it can. Neither the tables nor the
package take part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from faults.campaign import WrongError
from faults.groups.truth import differences, require_same
from faults.joins import datafusion
from faults.joins.datafusion import Rows
from faults.joins.tables import JoinedTable
from faults.shapes.rows import Row
from faults.shapes.truth import PINNED, values_of
from faults.shapes.writers import frame


class JoinsTruth:
    """
    The rows of some tables, version by version, and a query's result over them.

    :param tables: the tables that the query reads.
    :param query: the query.
    :param spark: a separate session with the settings that a job promises.
    :param folder: a folder for DataFusion's tables.
    """

    def __init__(self, tables: Sequence[JoinedTable], query: str, spark: SparkSession, folder: Path) -> None:
        self._tables = tuple(tables)
        self._query = query
        self._spark = spark
        for name, value in PINNED.items():
            spark.conf.set(name, value)
        self._folder = folder
        self._versions: dict[str, dict[int, tuple[Row, ...]]] = {table.name: {} for table in tables}
        self.computed_twice = 0
        """How often both engines have computed the query."""

    def record(self, table: str, version: int, rows: tuple[Row, ...]) -> None:
        """Remember a table's rows as of a version."""
        self._versions[table][version] = rows

    def rows_at(self, versions: Mapping[str, int]) -> Rows:
        """Return the rows of each table as of a version of it."""
        return {
            name: known[max(version for version in known if version <= versions[name])]
            for name, known in self._versions.items()
        }

    def newest(self) -> Rows:
        """Return the newest rows of each table."""
        return {name: known[max(known)] for name, known in self._versions.items()}

    def result(self, rows: Rows) -> DataFrame:
        """Return the query's result over some rows."""
        for table in self._tables:
            frame(self._spark, table.columns, rows[table.name]).createOrReplaceTempView(table.name)
        return self._spark.sql(self._query)

    def require(self, view: DataFrame, rows: Rows, when: str) -> None:
        """
        Compare a view with the query over some rows.

        :raises WrongError: if they differ, or if the engines do.
        """
        wanted = self.result(rows)
        require_same(view, wanted, when)
        other = datafusion.computed(self._query, self._tables, rows, self._folder)
        if other is None:
            return
        self.computed_twice += 1
        missing, more = differences(_without_scales(values_of(wanted)), _without_scales(other))
        if missing or more:
            both = f"only Spark {missing[:2]!a}, only DataFusion {more[:2]!a}"
            raise WrongError(f"{when}: the engines differ: {both}")


def _without_scales(rows: Sequence[Row]) -> list[Row]:
    """Return rows whose decimals have no scale of their own, which each engine chooses in its own way."""
    return [tuple(map(_without_scale, row)) for row in rows]


def _without_scale(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value
