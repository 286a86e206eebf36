"""
Replaces units of a view in one commit.

A unit whose rows in the view are already those that it gets is not written, so that a job that reads the view's changes
does not see it. For each other unit that the view has, a tombstone removes all of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.merging import merge_into
from airflow_backfill_provider.spark.row_hash import row_hashes
from airflow_backfill_provider.spark.stamped_table import StampedTable

_SUM = "decimal(38,0)"
"""A type in which sums of hashes do not overflow."""


def replace_units(
    table: StampedTable,
    fresh: DataFrame,
    touched: DataFrame,
    outputs: Sequence[str],
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> None:
    """
    Replace the rows of units, once per epoch and part.

    :param fresh: the new rows of the touched units, in the view's columns.
    :param touched: the units, each once; without columns, all rows of the view are one unit.
    :param outputs: the view's columns that identify a unit.
    """
    own = own_columns(fresh.columns)
    units, is_tombstone = own.numbered("unit", len(outputs)), own.named("is_tombstone")
    fresh, touched = fresh.persist(), touched.toDF(*units).persist()
    try:
        held = table.read().select(*map(column, fresh.columns))
        if units:
            held = held.join(F.broadcast(touched), _same(outputs, units), "left_semi")
        changed = _changed(fresh, held, outputs, units).persist()
        tombstones = changed.filter("is_held").select(
            *(F.lit(None).cast(field.dataType).alias(field.name) for field in fresh.schema.fields), *map(F.col, units)
        )
        written = fresh.join(changed, _same(outputs, units), "left_semi") if units else fresh.crossJoin(changed)
        inserts = written.select(
            *map(column, fresh.columns), *(column(name).alias(unit) for name, unit in zip(outputs, units, strict=True))
        )
        source = tombstones.withColumn(is_tombstone, F.lit(True)).unionAll(
            inserts.withColumn(is_tombstone, F.lit(False))
        )
        names = ", ".join(quote(name) for name in fresh.columns)
        values = ", ".join(f"change.{quote(name)}" for name in fresh.columns)
        merge_into(
            table,
            source,
            [
                f"change.{is_tombstone}",
                *(f"view.{quote(name)} <=> change.{unit}" for name, unit in zip(outputs, units, strict=True)),
            ],
            f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND NOT change.{is_tombstone} THEN INSERT ({names}) "
            f"VALUES ({values})",
            part,
            identity,
            barrier,
        )
        changed.unpersist()
    finally:
        fresh.unpersist()
        touched.unpersist()


def _changed(fresh: DataFrame, held: DataFrame, outputs: Sequence[str], units: Sequence[str]) -> DataFrame:
    """Return the units whose rows in the view differ from the new ones, and whether the view has any of them."""
    both = _hashed(fresh, outputs, units, 1).unionAll(_hashed(held, outputs, units, -1))
    sums = both.groupBy(*units).agg(
        F.sum("sign").alias("rows"),
        *(F.sum(F.col(name) * F.col("sign")).alias(name) for name in ("first", "second")),
        F.coalesce(F.some(F.col("sign") < 0), F.lit(False)).alias("is_held"),
    )
    return sums.filter("rows <> 0 OR first <> 0 OR second <> 0").select(*units, "is_held")


def _hashed(rows: DataFrame, outputs: Sequence[str], units: Sequence[str], sign: int) -> DataFrame:
    first, second = row_hashes(rows.schema)
    return rows.select(
        *(column(name).alias(unit) for name, unit in zip(outputs, units, strict=True)),
        first.cast(_SUM).alias("first"),
        second.cast(_SUM).alias("second"),
        F.lit(sign).alias("sign"),
    )


def _same(outputs: Sequence[str], units: Sequence[str]) -> Column | list[Column]:
    return [column(output).eqNullSafe(F.col(unit)) for output, unit in zip(outputs, units, strict=True)]
