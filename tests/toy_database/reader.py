"""Reads a table in a SQLite file on Spark: its present rows, and its changes from the change log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.change_log.dialect import Dialect
from airflow_backfill_provider.sources.shared.change_log.reader import ChangeLogReader
from airflow_backfill_provider.sources.shared.present_as_of import present_as_of
from tests.toy_database.definition import LEFT_OUT
from tests.toy_database.server import TYPES
from tests.toy_database.source import ToySource, number


def typed(text: Column, delta_type: str, name: str, matters: Column | None = None) -> Column:
    """Return a value from its text; the toy database writes days in its own way."""
    del name, matters
    if delta_type == "date":
        return F.to_date(text, "dd.MM.yyyy")
    return text.cast({"long": "bigint"}.get(delta_type, delta_type))


DIALECT = Dialect(
    typed=typed,
    typed_key=typed,
    has_no_key=lambda text, delta_type: F.lit(False),
    unchanged=LEFT_OUT,
    without_key="the toy database logged a change without {name}",
)


class ToyReader(SourceReader):
    """Reads one table."""

    keys_are_unique: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: ToySource) -> None:
        self._spark = spark
        self._source = source
        self._unsettled: DataFrame | None = None

    def rows(self, offset: Offset) -> DataFrame:
        rows, self._unsettled = present_as_of(self._source, self._source, self, offset, self._source.key)
        return rows

    def unsettled(self, offset: Offset) -> DataFrame | None:
        return self._unsettled

    def empty(self) -> DataFrame:
        return self._typed([])

    def present_rows(self, ranges: Sequence[KeyRange]) -> DataFrame:
        order = self._source.at().key_order(self._source.upstream.key)
        rows = [row for row in self._source.server.rows() if any(part.contains(row[:1], order) for part in ranges)]
        return self._typed([tuple(map(str, row)) for row in rows])

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        reader = ChangeLogReader(
            spark=self._spark,
            log=self._source.log,
            table="orders",
            types=TYPES,
            key=self._source.key,
            apart=frozenset({"name"}),
            dialect=DIALECT,
        )
        return reader.changes(number(after), number(up_to))

    def _typed(self, texts: list[tuple[str, ...]]) -> DataFrame:
        rows = self._spark.createDataFrame(texts, ", ".join(f"{name} string" for name in TYPES))
        return rows.select(*(typed(F.col(name), kind, name).alias(name) for name, kind in TYPES.items()))
