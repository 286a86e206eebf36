"""
Reads the rows of a PostgreSQL table over JDBC, by ranges of keys.

Every value comes as text, except whole numbers and texts, which come the same way in any case. So a value is the same
whether it was read in a snapshot or from the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from psycopg import sql
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.sources.shared.hidden_options import hide_options
from airflow_backfill_provider.sources.shared.postgresql import catalog, session_settings
from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedColumn, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.database import Database
from airflow_backfill_provider.sources.shared.postgresql.jdbc_address import jdbc_address
from airflow_backfill_provider.sources.shared.postgresql.key_ranges import condition
from airflow_backfill_provider.sources.shared.postgresql.row_widths import WidthClass, width_classes

DRIVER = "org.postgresql.Driver"

_DRIVER_ERROR = re.compile(r"org\.postgresql\.util\.PSQLException: (?P<text>[^\n]+)")

_AS_THEY_ARE = frozenset({"int2", "int4", "int8", "text", "varchar"})
"""Types whose values JDBC passes on without a change."""

_AS_WRITTEN = frozenset(
    {"bool", "bytea", "date", "float4", "float8", "numeric", "oid", "timestamp", "timestamptz", "uuid"}
)
"""Types of which JDBC passes on the text that the server writes, if it is asked for a text."""

_BY_DRIVER = frozenset({"client_encoding", "DateStyle"})
"""Settings that the JDBC driver sets itself, to the same values; it refuses others."""

_OPTIONS = {
    "ApplicationName": "airflow_backfill",
    # Of a value that comes in binary form, the driver makes a text of its own.
    "binaryTransfer": "false",
    # Also for Spark's question for the types of a query, before which it runs no statement.
    "options": session_settings.startup_options(without=_BY_DRIVER),
}
"""Options of the driver. They are in the address, because Spark writes the names of properties in small letters."""


@dataclass(frozen=True, slots=True)
class JdbcTable:
    """
    A table, read on Spark.

    :param table: the table, as the catalog has it.
    :param columns: the names of the columns to read.
    :param order: the key's order.
    """

    spark: SparkSession
    database: Database
    table: DescribedTable
    columns: tuple[str, ...]
    order: KeyOrder

    def rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return the rows of some ranges, all values as texts as the database writes them.

        :param ranges: disjoint ranges, at least one; each is read through a connection of its own, or through several
            if some rows have long values.
        """
        hide_options(self.spark, ["password"])
        with self.database.session() as connection:
            has_long_values = catalog.has_long_values(connection, self.table.oid)
        parameters = self.database.resolved_parameters()
        classes = width_classes(self._columns, has_long_values=has_long_values)
        return reduce(DataFrame.unionAll, (self._read(ranges, found, parameters) for found in classes))

    def _read(self, ranges: Sequence[KeyRange], wide: WidthClass, parameters: Mapping[str, str]) -> DataFrame:
        """Return the rows of some ranges that are about as wide."""
        ssl = {name: value for name, value in parameters.items() if name.startswith("ssl")}
        properties: dict[str, str] = {
            "driver": DRIVER,
            "user": parameters["user"],
            "password": parameters["password"],
            "fetchsize": str(wide.rows),
            "sessionInitStatement": session_settings.statements(without=_BY_DRIVER),
            "customSchema": ", ".join(
                f"{quote(column.name)} STRING" for column in self._columns if column.type.name in _AS_WRITTEN
            ),
            # The database would compare texts in another order than Spark.
            "pushDownPredicate": "false",
            "pushDownAggregate": "false",
            "pushDownLimit": "false",
            **ssl,
        }
        types = {column.name: column.type.name for column in self.table.columns}
        with self._connecting():
            return self.spark.read.jdbc(
                jdbc_address(parameters["host"], parameters["port"], parameters["dbname"], _OPTIONS),
                f"({self._select(wide.condition).as_string(None)}) AS present_rows",
                predicates=[condition(covered, self.order, types).as_string(None) for covered in ranges],
                properties=properties,
            )

    @contextmanager
    def _connecting(self) -> Iterator[None]:
        """Translate the errors of asking the database for the types of a query, which cannot quote rows."""
        try:
            yield
        except (PySparkException, Py4JError) as error:
            # Spark's own message leaves out what the driver said.
            found = _DRIVER_ERROR.search(f"{error}\n{getattr(error, '_stackTrace', '')}")
            if found is None and "FAILED_JDBC" not in str(error):
                raise
            raise self.database.jdbc_failed(found["text"] if found else "see Spark's log") from None

    @property
    def _columns(self) -> list[DescribedColumn]:
        return [column for column in self.table.columns if column.name in self.columns]

    def _select(self, condition: sql.Composable) -> sql.Composable:
        """Return the query of rows. The server merges it with the condition of a range, so an index is used."""
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(
                sql.SQL("{} AS {}").format(_as_text(column), sql.Identifier(column.name)) for column in self._columns
            ),
            sql.Identifier(self.table.schema, self.table.name),
            condition,
        )


def _as_text(column: DescribedColumn) -> sql.Composable:
    """Return a column as the text that its type's output function writes, as in the log."""
    name = sql.Identifier(column.name)
    if column.type.element is not None and column.type.delta_type is not None:
        # Through the text of the whole array: a cast of its elements writes some of them differently, see below.
        return sql.SQL("array_to_json({}::text::text[])::text").format(name)
    if column.type.name in _AS_THEY_ARE or (column.type.name in _AS_WRITTEN and not _is_inexact(column)):
        return name
    # A cast to text writes some types differently: it removes the blanks at the end of a char(n), for example.
    return sql.SQL("CASE WHEN {} IS NOT NULL THEN concat({}) END").format(name, name)


def _is_inexact(column: DescribedColumn) -> bool:
    """Return whether Spark may have no type for a number, and so would refuse the column."""
    return column.type.name == "numeric" and column.type.delta_type == "string"
