"""The rows that a case keeps of its tables, version by version, and what Spark computes over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NoReturn

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.errors import QueryFailedError
from faults.campaign import WrongError
from faults.failing_rows import fails
from faults.shapes.case import Case
from faults.shapes.rows import Row
from faults.shapes.truth import PINNED
from faults.shapes.writers import frame

TableRows = Mapping[str, tuple[Row, ...]]
"""The rows of each table, by its name."""


class QueryFails(Exception):  # noqa: N818 - it is no error of the package
    """Spark fails on the query over these rows, too, so that nothing follows."""


class TableHistories:
    """
    Remembers the rows of some tables.

    :param cases: the tables by the names that queries give them.
    :param spark: a separate session, which gets the settings that a job promises.
    """

    def __init__(self, cases: Mapping[str, Case], spark: SparkSession) -> None:
        self.spark = spark
        for name, value in PINNED.items():
            spark.conf.set(name, value)
        self._cases = dict(cases)
        self._versions: dict[str, dict[int, tuple[Row, ...]]] = {name: {} for name in cases}
        self._moments: list[TableRows] = []

    def record(self, table: str, version: int, rows: tuple[Row, ...]) -> None:
        """Remember a table's rows as of a version."""
        self._versions[table][version] = rows
        newest = self.newest()
        if len(newest) == len(self._cases):
            self._moments.append(newest)

    def rows_at(self, versions: Mapping[str, int]) -> TableRows:
        """Return the rows of each table as of a version of it; it has none before the first one that was recorded."""
        newest = {
            name: max((version for version in known if version <= versions[name]), default=-1)
            for name, known in self._versions.items()
        }
        return {name: self._versions[name].get(version, ()) for name, version in newest.items()}

    def newest(self) -> TableRows:
        """Return the newest rows of each table that has any version."""
        return {name: known[max(known)] for name, known in self._versions.items() if known}

    def result(self, query: str, rows: TableRows) -> DataFrame:
        """Return a query's result over some rows."""
        for name, case in self._cases.items():
            frame(self.spark, case.columns, rows[name]).createOrReplaceTempView(name)
        return self.spark.sql(query)

    def require_failing(self, queries: Iterable[str], error: QueryFailedError) -> NoReturn:
        """
        End a case in which a query failed on a row.

        :param queries: the queries of the case.
        :param error: the failure.
        :raises QueryFails: if Spark fails on one of them over the rows that the tables had at some moment.
        :raises WrongError: if it fails on none.
        """
        if not self._is_failing(queries):
            raise WrongError(f"the query fails on no row: {error}") from error
        raise QueryFails from error

    def _is_failing(self, queries: Iterable[str]) -> bool:
        moments = tuple(reversed(self._moments))
        return any(fails(partial(self.result, query, rows)) for query in queries for rows in moments)
