"""
The expected view: the verbatim query over the rows that a case keeps of each table, as of the pinned versions.

Spark computes it in a session of its own, and DataFusion computes it once more where it can. Neither the tables nor the
package take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from faults.campaign import WrongError
from faults.groups.truth import differences, require_same
from faults.joins import datafusion
from faults.joins.tables import JoinedTable
from faults.shapes.rows import Row
from faults.shapes.truth import values_of
from faults.table_histories import TableHistories, TableRows


class JoinsTruth(TableHistories):
    """
    The rows of some tables, version by version, and a query's result over them.

    :param tables: the tables that the query reads.
    :param query: the query.
    :param spark: a separate session with the settings that a job promises.
    :param folder: a folder for DataFusion's tables.
    """

    def __init__(self, tables: Sequence[JoinedTable], query: str, spark: SparkSession, folder: Path) -> None:
        super().__init__({table.name: table.upstream for table in tables}, spark)
        self._tables = tuple(tables)
        self._query = query
        self._folder = folder
        self.computed_twice = 0
        """How often both engines have computed the query."""

    def require(self, view: DataFrame, rows: TableRows, when: str) -> None:
        """
        Compare a view with the query over some rows.

        :raises WrongError: if they differ, or if the engines do.
        """
        wanted = self.result(self._query, rows)
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
