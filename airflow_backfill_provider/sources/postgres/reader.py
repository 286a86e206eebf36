"""
Reads a PostgreSQL table on Spark: its present rows over JDBC, and its changes from the change log.

The values of both become columns through the same conversion.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.description import PostgresDescription
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.change_log.reader import ChangeLogReader
from airflow_backfill_provider.sources.shared.postgresql.jdbc import JdbcTable
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of
from airflow_backfill_provider.sources.shared.postgresql.texts import DIALECT, typed, typed_key
from airflow_backfill_provider.sources.shared.present_as_of import present_as_of


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
        key = [column.column for column in self._source.upstream.key]
        rows, self._unsettled = present_as_of(self._source, self._source.present, self, offset, key)
        return rows

    def unsettled(self, offset: Offset) -> DataFrame | None:
        """Return the keys that changed after the offset, up to when the rows were read."""
        del offset
        return self._unsettled

    def empty(self) -> DataFrame:
        """Return the columns that the job uses, without rows."""
        columns = [typed(F.lit(None).cast("string"), kind, name).alias(name) for name, kind in self._types.items()]
        return self._spark.range(0).select(*columns)

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the changes in ``(after, up_to]``, from the change log."""
        source = self._source
        reader = ChangeLogReader(
            spark=self._spark,
            log=source.log,
            table=source.table.log_table,
            types=self._types,
            key=[column.column for column in source.upstream.key],
            # Even if the log has whole rows now: it may have left values out before that was set.
            apart=frozenset(filter(self._may_lie_apart, self._types)),
            dialect=DIALECT,
        )
        return reader.changes(lsn_of(after), lsn_of(up_to))

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        """
        Return the rows in some ranges of keys as they are now, each range through a connection of its own.

        :param ranges: disjoint ranges, at least one.
        :raises UpstreamSchemaChangedError: if a column that the job uses is gone by now, or has another type.
        """
        described = self._source.at()
        if self._source.created is not None:
            described.require_same_columns(self._source.created)
        types = self._types
        order: KeyOrder = described.key_order(self._source.upstream.key)
        table = JdbcTable(self._spark, self._source.database, described.table, tuple(types), order)
        key = set(order.names)
        return table.rows(ranges).select(
            *(
                (typed_key if name in key else typed)(column(name), kind, name).alias(name)
                for name, kind in types.items()
            )
        )

    def is_cleared(self, after: Offset, up_to: Offset) -> bool:
        """Return whether the table was truncated in ``(after, up_to]``."""
        source = self._source
        return source.log.queries.truncated_within(source.table.log_table, lsn_of(after), lsn_of(up_to)) is not None

    # ------------------------------------------------------------------------------------------------- details

    @cached_property
    def _described(self) -> PostgresDescription:
        return self._source.at()

    @cached_property
    def _types(self) -> dict[str, str]:
        """
        The columns that the job uses, as of its creation; without a job, those that have a counterpart now.

        Nothing is asked about any other column, so it does not matter what becomes of these meanwhile.
        """
        created = self._source.created
        if created is not None:
            return {column.name: column.type for column in created.columns}
        return {name: kind for name, kind in self._described.types.items() if not kind.startswith("<")}

    def _may_lie_apart(self, name: str) -> bool:
        """Return whether changes may lack a value; so it is for a column that is no longer what it was, too."""
        column = self._described.table.column(name)
        return column is None or self._described.types[name] != self._types[name] or column.may_be_toasted
