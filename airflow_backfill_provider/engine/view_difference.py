"""
How a view that waits for an approval differs from the one that serves.

Both sides are rows with the columns of their views, read at pinned versions. Columns that only one side has, or that
have another type, are not compared; neither is the hidden state of groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    VariantType,
)

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.status.differences import DifferenceKind
from airflow_backfill_provider.core.status.view_difference import (
    SAMPLED_KEYS,
    ChangedKey,
    PinnedSides,
    QueryAt,
    RowChange,
    RowDifference,
    RowValues,
    ViewAt,
)
from airflow_backfill_provider.engine.compared_sides import HASHES, ROW, UNIT
from airflow_backfill_provider.engine.differing_keys import (
    COLUMNS,
    EXPECTED_ROWS,
    FOUND_ROWS,
    KIND,
    differing_keys,
    encoded,
)
from airflow_backfill_provider.engine.opened_sides import sides_of
from airflow_backfill_provider.engine.tables import TableOpener
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.queries import Units
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys, with_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.former_rows import rows_of_query
from airflow_backfill_provider.spark.row_hash import row_hashes
from airflow_backfill_provider.spark.session import pin_settings
from airflow_backfill_provider.spark.spark_errors import comparison_errors

HIDDEN = "__"
"""How the names of columns begin that readers are not told of."""

_CHANGES = {
    DifferenceKind.MISSING: RowChange.ADDED,
    DifferenceKind.UNEXPECTED: RowChange.REMOVED,
    DifferenceKind.REPEATED: RowChange.CHANGED,
    DifferenceKind.DIFFERENT: RowChange.CHANGED,
}


class SparkViewComparer:
    """
    Compares on Spark.

    :param spark: the session.
    :param tables: opens the tables of jobs.
    """

    def __init__(self, spark: SparkSession, tables: TableOpener) -> None:
        self._spark = spark
        self._tables = tables

    def difference(self, sides: PinnedSides) -> RowDifference:
        """
        Compare a view that waits for an approval with the one that serves.

        :raises BackfillError: if a table cannot be read.
        """
        pin_settings(self._spark)
        with comparison_errors(_named(sides)):
            return self._opened(sides).difference()

    def values(self, sides: PinnedSides, keys: Sequence[EncodedPosition]) -> Sequence[RowValues]:
        """
        Return the rows of both views with some keys.

        :raises BackfillError: if a table cannot be read.
        """
        pin_settings(self._spark)
        with comparison_errors(_named(sides)):
            return self._opened(sides).values(keys)

    def _opened(self, sides: PinnedSides) -> ViewSides:
        waiting = sides.waiting
        return ViewSides(
            settings=waiting.settings,
            after=self._rows_of(waiting) if isinstance(waiting, ViewAt) else self._result_of(waiting),
            before=None if sides.served is None else self._rows_of(sides.served),
        )

    def _rows_of(self, view: ViewAt) -> DataFrame:
        """Return those rows of a view that its query gives."""
        job = view.settings.definition
        return rows_of_query(self._tables.table_rows(job.view_location, view.version), job.keep)

    def _result_of(self, query: QueryAt) -> DataFrame:
        """Return what a query gives, without the hidden state of groups."""
        settings = query.settings
        shown = settings.model_copy(
            update={"view_columns": tuple(found for found in settings.view_columns if found.of_rows is None)}
        )
        vnodes = (0, settings.definition.vnode_count - 1)
        sides = sides_of(self._spark, self._tables, shown, query.pinned, query.barrier)
        return sides.expected(vnodes).select(f"{ROW}.*")


def _named(sides: PinnedSides) -> str:
    return f"the view of job {sides.waiting.settings.job['name']} that waits for an approval"


@dataclass(frozen=True)
class ViewSides:
    """
    Both sides of a difference.

    :param settings: the settings of the view that waits.
    :param after: its rows.
    :param before: the rows of the view that serves; ``None`` if none does.
    """

    settings: JobSettings
    after: DataFrame
    before: DataFrame | None

    def difference(self) -> RowDifference:
        """Compare the rows."""
        after = self._shown(self.after)
        before = after.limit(0) if self.before is None else self._shown(self.before)
        schema = StructType(_common(before.schema, after.schema))
        named = self._columns(before.schema, after.schema)
        if not schema.fields:
            return _of_nothing_in_common(after.count(), before.count(), named)
        sides = (_hashed(after, schema), _hashed(before, schema))
        if not self._has_key(schema):
            return _of_whole_rows(*sides, named)
        order = self._units.order
        keys = differing_keys(
            *sides, schema, key=self._units.outputs, order=order, inexact=self._inexact(schema)
        ).persist(KEPT)
        try:
            counted = keys.groupBy(KIND).agg(
                F.count(F.lit(1)).alias("units"), F.sum(F.col(EXPECTED_ROWS) - F.col(FOUND_ROWS)).alias("more")
            )
            found = counted.collect()
            by_column = keys.select(F.explode(COLUMNS).alias("name")).groupBy("name").count().collect()
            outputs = [F.col(f"__key_{number}") for number in range(len(order.fields))]
            first = keys.orderBy(*outputs).limit(SAMPLED_KEYS).collect()
        finally:
            keys.unpersist()
        rows_before = before.count()
        counts = dict.fromkeys(RowChange, 0)
        for row in found:
            counts[_CHANGES[DifferenceKind(row[KIND])]] += row["units"]
        return RowDifference(
            rows_before=rows_before,
            rows_after=rows_before + sum(row["more"] for row in found),
            added=counts[RowChange.ADDED],
            removed=counts[RowChange.REMOVED],
            changed=counts[RowChange.CHANGED],
            columns={row["name"]: row["count"] for row in sorted(by_column, key=lambda row: str(row["name"]))},
            sample=tuple(
                ChangedKey(kind=_CHANGES[DifferenceKind(row[KIND])], key=key, columns=tuple(row[COLUMNS] or ()))
                for row in first
                if (key := encoded([row[f"__text_{number}"] for number in range(len(order.fields))], order)) is not None
            ),
            **named,
        )

    def values(self, keys: Sequence[EncodedPosition]) -> tuple[RowValues, ...]:
        """Return the rows of both sides with some keys."""
        return tuple(
            RowValues(
                key=key,
                before=() if self.before is None else self._rows_with(self.before, key),
                after=self._rows_with(self.after, key),
            )
            for key in keys
        )

    def _rows_with(self, rows: DataFrame, key: EncodedPosition) -> tuple[Mapping[str, str | None], ...]:
        wanted = decoded_keys(rows.sparkSession, self._units.order, [key])
        shown = with_keys(self._shown(rows), wanted, self._units.outputs)
        return tuple(row.asDict() for row in shown.select(*map(_as_text, shown.schema.fields)).collect())

    @cached_property
    def _units(self) -> Units:
        return resolved_query_of(self.settings).units(self.settings, by_key=True)

    def _shown(self, rows: DataFrame) -> DataFrame:
        """Return rows without the hidden state of units."""
        return rows.select(*(column(name) for name in rows.columns if self._is_shown(name)))

    def _is_shown(self, name: str) -> bool:
        return name in self._units.outputs or not name.startswith(HIDDEN)

    def _has_key(self, schema: StructType) -> bool:
        """Return whether both sides have the columns that identify a unit of the view that waits."""
        return bool(self._units.outputs) and set(self._units.outputs) <= set(schema.names)

    def _inexact(self, schema: StructType) -> tuple[str, ...]:
        floating = [field.name for field in schema.fields if isinstance(field.dataType, (DoubleType, FloatType))]
        found = resolved_query_of(self.settings).inexact(floating)
        return tuple(name for name in floating if name in found)

    def _columns(self, before: StructType, after: StructType) -> dict[str, Any]:
        """Return the columns that cannot be compared, as the fields of the difference."""
        old, new = (
            {field.name: field.dataType for field in schema.fields if not field.name.startswith(HIDDEN)}
            for schema in (before, after)
        )
        return {
            "columns_added": tuple(name for name in new if name not in old),
            "columns_removed": tuple(name for name in old if name not in new),
            "columns_retyped": tuple(name for name in new if name in old and old[name] != new[name]),
        }


def _common(before: StructType, after: StructType) -> list[StructField]:
    """Return the columns that both sides have with the same type."""
    types = {field.name: field.dataType for field in before.fields}
    return [field for field in after.fields if types.get(field.name) == field.dataType]


def _hashed(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows in the form in which sides are compared; all of them are in one vnode."""
    first, second = row_hashes(schema.fields)
    return rows.select(
        F.struct(*(column(name) for name in schema.names)).alias(ROW),
        F.lit(0).alias(UNIT),
        first.alias(HASHES[0]),
        second.alias(HASHES[1]),
    )


def _of_nothing_in_common(after: int, before: int, named: Mapping[str, Any]) -> RowDifference:
    """
    Return the difference of views that have no column in common: all rows go, and others come.

    :param after: the number of rows of the view that waits.
    :param before: that of the view that serves.
    :param named: the columns that cannot be compared.
    """
    return RowDifference(rows_before=before, rows_after=after, added=after, removed=before, has_key=False, **named)


def _of_whole_rows(after: DataFrame, before: DataFrame, named: Mapping[str, Any]) -> RowDifference:
    """
    Return the difference of views without a common key: a row that changed is one that goes and one that comes.

    :param after: the rows of the view that waits, with their hashes.
    :param before: those of the view that serves.
    :param named: the columns that cannot be compared.
    """
    sides = after.select(*HASHES, F.lit(1).alias("sign")).unionAll(before.select(*HASHES, F.lit(-1).alias("sign")))
    more = F.col("more")
    (counted,) = (
        sides.groupBy(*HASHES)
        .agg(F.sum("sign").alias("more"), F.count_if(F.col("sign") < 0).alias("rows"))
        .agg(
            F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"),
            F.coalesce(F.sum(F.when(more > 0, more)), F.lit(0)).alias("added"),
            F.coalesce(F.sum(F.when(more < 0, -more)), F.lit(0)).alias("removed"),
        )
        .collect()
    )
    added, removed = counted["added"], counted["removed"]
    return RowDifference(
        rows_before=counted["rows"],
        rows_after=counted["rows"] + added - removed,
        added=added,
        removed=removed,
        has_key=False,
        **named,
    )


def _as_text(field: StructField) -> Column:
    """Return a value as text, for the terminal."""
    value = column(field.name)
    if isinstance(field.dataType, (ArrayType, MapType, StructType, VariantType)):
        return F.to_json(value).alias(field.name)
    return (F.base64(value) if isinstance(field.dataType, BinaryType) else value.cast("string")).alias(field.name)
