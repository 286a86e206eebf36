"""Counts rows and their keys: in the driver's memory if there are not too many, else on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.shared.by_key import column, has_several
from airflow_backfill_provider.spark.key_numbers import distinct_values

HASHES_IN_MEMORY = 25_000_000
"""The most key hashes, of eight bytes each, that are counted in the driver's memory; it needs three times as much."""


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """
    What was counted.

    :param rows: the number of rows.
    :param repeats: whether several rows have the same key.
    """

    rows: int
    repeats: bool


def counted_keys(rows: DataFrame, names: Sequence[str], *, expected: int) -> CountedKeys:
    """
    Count rows, and find out whether several have the same key; reads only the key columns.

    :param names: the key columns.
    :param expected: the estimated number of rows.
    """
    # Hashes are short for any key, and hardly ever collide.
    hashes = rows.select(F.xxhash64(*map(column, names)).alias("__hash"))
    count, distinct = _count_in_driver(hashes) if expected <= HASHES_IN_MEMORY else _count_on_spark(hashes)
    return CountedKeys(count, repeats=distinct < count and has_several(rows, names))


def _count_in_driver(hashes: DataFrame) -> tuple[int, int]:
    """Return the number of rows and of distinct ones, counted in the driver's memory; cheaper than a shuffle."""
    values = hashes.toArrow().column(0).to_numpy()
    return len(values), distinct_values(values)


def _count_on_spark(hashes: DataFrame) -> tuple[int, int]:
    """Return the number of rows and of distinct ones, counted by Spark."""
    counted = hashes.groupBy("__hash").agg(F.count("*").alias("__rows"))
    total = counted.agg(F.sum("__rows").alias("rows"), F.count("*").alias("distinct")).collect()[0]
    return int(total["rows"] or 0), int(total["distinct"])
