"""
Reads a PostgreSQL table on Spark: its present rows over JDBC, and its changes from the change log.

Every value comes as text, except whole numbers and texts, which come the same way in any case. So a value is the same
whether it was read in a snapshot or from the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import ClassVar

from psycopg import sql
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import ConcurrentUpdateError
from airflow_backfill_provider.core.keys import EVERYTHING, KeyOrder, KeyRange
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.sources.change_log.reader import ChangeLogReader
from airflow_backfill_provider.sources.change_log.texts import typed
from airflow_backfill_provider.sources.postgres.catalog import DescribedColumn
from airflow_backfill_provider.sources.postgres.database import SESSION_SETTINGS
from airflow_backfill_provider.sources.postgres.description import PostgresDescription
from airflow_backfill_provider.sources.postgres.key_ranges import condition
from airflow_backfill_provider.sources.postgres.lsn import lsn_of
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.reader import SourceReader

FETCHED_ROWS = "10000"
"""How many rows a reader has in memory at a time."""

DRIVER = "org.postgresql.Driver"

_AS_THEY_ARE = frozenset({"int2", "int4", "int8", "text", "varchar"})
"""Types whose values JDBC passes on without a change."""

_BY_DRIVER = frozenset({"client_encoding", "DateStyle"})
"""Settings that the JDBC driver sets itself, to the same values; it refuses others."""


class PostgresReader(SourceReader):
    """
    Reads one table.

    :param source: the table.
    """

    keys_are_unique: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: PostgresSource) -> None:
        self._spark = spark
        self._source = source
        self._unsettled: DataFrame | None = None

    def rows(self, offset: Offset) -> DataFrame:
        """
        Return the rows as of an offset, without those that have changed since.

        They are read now, and kept until their changes are landed.
        """
        present = self._source.present
        after = present.begin_reading()
        read = self.present_rows([EVERYTHING]).persist()
        read.count()
        present.end_reading("verification")
        self._source.refresh()
        names = [column.column for column in self._source.upstream.key]
        if self.is_cleared(offset, self._source.latest()):
            raise ConcurrentUpdateError(
                f"{self._source.location} was truncated, so its rows as of offset {offset} are gone; run an epoch, and "
                "try again"
            )
        changed = self.changes(min(after, offset), self._source.latest()).select(*map(_named, names)).distinct()
        self._unsettled = changed
        keys = changed.toDF(*(f"__changed_{number}" for number in range(len(names))))
        same = [_named(name).eqNullSafe(F.col(key)) for name, key in zip(names, keys.columns, strict=True)]
        return read.join(keys, same, "left_anti")

    def unsettled(self, offset: Offset) -> DataFrame | None:
        """Return the keys that changed after the offset, up to when the rows were read."""
        del offset
        return self._unsettled

    def empty(self) -> DataFrame:
        """Return all columns, without rows."""
        types = self._types
        columns = [typed(F.lit(None).cast("string"), kind, name).alias(name) for name, kind in types.items()]
        return self._spark.range(0).select(*columns)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the changes in ``(after, up_to]``, from the change log."""
        source, described = self._source, self._described
        apart = frozenset(
            column.name
            for column in described.table.columns
            if column.may_lie_apart and column.name in self._types and not described.table.logs_whole_rows
        )
        reader = ChangeLogReader(
            spark=self._spark,
            log=source.log,
            table=source.log_table,
            types=self._types,
            key=[column.column for column in source.upstream.key],
            apart=apart,
        )
        return reader.changes(lsn_of(after), lsn_of(up_to))

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return the rows in some ranges of keys as they are now, each range through a connection of its own.

        :param ranges: disjoint ranges, at least one.
        """
        read = reduce(DataFrame.unionAll, map(self._range, ranges))
        return read.select(*(typed(_named(name), kind, name).alias(name) for name, kind in self._types.items()))

    def is_cleared(self, after: Offset, up_to: Offset) -> bool:
        """Return whether the table was truncated in ``(after, up_to]``."""
        source = self._source
        return source.log.truncated_within(source.log_table, lsn_of(after), lsn_of(up_to)) is not None

    # ------------------------------------------------------------------------------------------------- details

    @cached_property
    def _described(self) -> PostgresDescription:
        return self._source.at()

    @property
    def _types(self) -> dict[str, str]:
        """The columns that have a counterpart."""
        return {name: kind for name, kind in self._described.types.items() if not kind.startswith("<")}

    def _range(self, covered: KeyRange) -> DataFrame:
        """Return the rows of a range, all values as the database writes them."""
        parameters = self._source.database.parameters()
        host, port = parameters.get("host", "localhost"), parameters.get("port", "5432")
        ssl = {name: value for name, value in parameters.items() if name.startswith("ssl")}
        settings = "; ".join(
            f"SET {name} TO '{value}'" for name, value in SESSION_SETTINGS.items() if name not in _BY_DRIVER
        )
        properties: dict[str, str] = {
            "driver": DRIVER,
            "user": parameters.get("user", ""),
            "password": parameters.get("password", ""),
            "fetchsize": FETCHED_ROWS,
            "sessionInitStatement": settings,
            "ApplicationName": "airflow_backfill",
            # The database would compare texts in another order than Spark.
            "pushDownPredicate": "false",
            "pushDownAggregate": "false",
            "pushDownLimit": "false",
            **ssl,
        }
        return self._spark.read.jdbc(
            f"jdbc:postgresql://{host}:{port}/{parameters.get('dbname', '')}",
            f"({self._select(covered).as_string(None)}) AS present_rows",
            properties=properties,
        )

    def _select(self, covered: KeyRange) -> sql.Composable:
        described = self._described
        types = {column.name: column.type.name for column in described.table.columns}
        order: KeyOrder = described.key_order(self._source.upstream.key)
        columns = [
            sql.SQL("{} AS {}").format(_as_text(column), sql.Identifier(column.name))
            for column in described.table.columns
            if column.name in self._types
        ]
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(columns),
            sql.Identifier(described.table.schema, described.table.name),
            condition(covered, order, types),
        )


def _as_text(column: DescribedColumn) -> sql.Composable:
    """Return a column as the text that its type's output function writes, as in the log."""
    name = sql.Identifier(column.name)
    if column.type.element is not None and column.type.delta_type is not None:
        return sql.SQL("array_to_json({}::text[])::text").format(name)
    if column.type.name in _AS_THEY_ARE:
        return name
    # A cast to text writes some types differently: it removes the blanks at the end of a char(n), for example.
    return sql.SQL("CASE WHEN {} IS NOT NULL THEN concat({}) END").format(name, name)


def _named(name: str) -> Column:
    """Return a column by its exact name."""
    return F.col(quote(name))
