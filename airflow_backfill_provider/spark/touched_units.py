"""The units that an epoch touches, and between which values they lie, so that files of other units stay closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.spark.small_changes import broadcast_if_few, bytes_of

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    Where the values of a column lie.

    :param least: the least value as SQL.
    :param most: the greatest one.
    :param has_nulls: whether the column is null in any unit.
    """

    column: str
    least: str
    most: str
    has_nulls: bool

    def within(self, prefix: str) -> str:
        """Return the condition on which a value is one of them, or near."""
        name = f"{prefix}{quote(self.column)}"
        condition = f"{name} BETWEEN {self.least} AND {self.most}"
        return f"({condition} OR {name} IS NULL)" if self.has_nulls else condition


@dataclass(frozen=True, slots=True)
class TouchedUnits:
    """
    Some units of a view.

    :param rows: the units.
    :param columns: the view's columns that identify a unit.
    :param number: how many rows that are; a unit may be there several times.
    :param value_bytes: bytes of all texts and other values without a fixed width.
    :param bounds: where the values of some of these columns lie.
    """

    rows: DataFrame
    columns: tuple[str, ...]
    number: int
    value_bytes: int
    bounds: tuple[Bounds, ...]

    @classmethod
    def of(cls, rows: DataFrame, columns: Sequence[str]) -> TouchedUnits:
        """Look at units once, to learn their number and between which values they lie."""
        kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        found = rows.agg(
            F.count(F.lit(1)).alias("number"),
            F.sum(bytes_of(TableSchema.of(rows.schema.json()).types)).alias("bytes"),
            *(
                figure.alias(f"{name}_{number}")
                for number, unit in enumerate(columns)
                for name, figure in _figures(column(unit), kinds[unit]).items()
            ),
        ).collect()[0]
        bounds = (
            Bounds(unit, found[f"least_{number}"], found[f"most_{number}"], found[f"nulls_{number}"])
            for number, unit in enumerate(columns)
            if found[f"least_{number}"] is not None
        )
        return cls(rows, tuple(columns), found["number"], found["bytes"] or 0, tuple(bounds))

    def named(self, columns: Sequence[str]) -> TouchedUnits:
        """Return the same units under other names of their columns."""
        names = dict(zip(self.columns, columns, strict=True))
        bounds = (replace(found, column=names[found.column]) for found in self.bounds)
        return replace(self, rows=self.rows.toDF(*columns), columns=tuple(columns), bounds=tuple(bounds))

    def rows_in(self, view: DataFrame) -> DataFrame:
        """Return the rows of a view that belong to these units."""
        units = self.rows.select(*map(column, self.columns))
        return with_keys(view, broadcast_if_few(units, self.number, self.value_bytes), self.columns)

    def within(self, prefix: str = "") -> list[str]:
        """
        Return what each row of a view with one of these units meets, as SQL.

        Delta compares it with the statistics of files, and so opens no file that has other units only.

        :param prefix: what comes before the names of the view's columns.
        """
        return [bounds.within(prefix) for bounds in self.bounds]


def _figures(unit: Column, kind: str) -> dict[str, Column]:
    return {
        "least": _text_of(F.min(unit), kind),
        "most": _text_of(F.max(unit), kind),
        "nulls": F.coalesce(F.some(unit.isNull()), F.lit(False)),
    }


def _text_of(value: Column, kind: str) -> Column:
    """Return a value as SQL; null for types without an exact and short text, or that Delta has no statistics of."""
    if kind in _INTEGERS:
        return value.cast("string")
    if kind == "date":
        return F.concat(F.lit("DATE'"), value.cast("string"), F.lit("'"))
    if kind == "timestamp":
        return F.concat(F.lit("timestamp_micros("), F.unix_micros(value).cast("string"), F.lit(")"))
    return F.lit(None).cast("string")
