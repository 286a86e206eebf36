"""Columns by their exact names, and rows by their keys, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyKind, KeyOrder


def column(name: str) -> Column:
    """Return a top-level column by its exact name, dots and all."""
    return F.col(quote(name))


def decoded_keys(spark: SparkSession, order: KeyOrder, encoded: Sequence[EncodedPosition]) -> DataFrame:
    """Return encoded keys as rows with the order's own columns and types."""
    texts = StructType([StructField(f"text_{number}", StringType()) for number in range(len(order.fields))])
    rows = spark.createDataFrame([tuple(key) for key in encoded], texts)
    values = []
    for text, field in zip(map(F.col, texts.names), order.fields, strict=True):
        value = F.unhex(text) if field.kind is KeyKind.BINARY else text.cast(field.type)
        values.append(value.alias(field.name))
    return rows.select(*values)


def without_keys(rows: DataFrame, keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """
    Return the rows whose keys are not among others; null is a value like any other.

    :param rows: rows with the key columns.
    :param keys: the key columns, in the key's order; the same key may come several times.
    :param names: the names of the key columns in ``rows``.
    """
    return _joined(rows, keys, names, "left_anti")


def with_keys(rows: DataFrame, keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the rows whose keys are among others; see :func:`without_keys`."""
    return _joined(rows, keys, names, "left_semi")


def has_several(rows: DataFrame, names: Sequence[str]) -> bool:
    """Return whether several rows have the same key."""
    count = own_columns(rows.columns).named("rows")
    counted = rows.groupBy(*map(column, names)).agg(F.count("*").alias(count))
    return not counted.filter(F.col(count) > 1).isEmpty()


def _joined(rows: DataFrame, keys: DataFrame, names: Sequence[str], how: str) -> DataFrame:
    others = keys.toDF(*own_columns(rows.columns).numbered("other", len(names)))
    same = [column(name).eqNullSafe(F.col(other)) for name, other in zip(names, others.columns, strict=True)]
    return rows.join(others, same, how)
