"""A table of sales of many products, and what happens to it between two epochs."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

SALES_PER_PRODUCT = 10
DELETION_VECTORS = os.environ.get("BENCH_DELETION_VECTORS", "false")
"""
Whether the sales have deletion vectors; new tables have none by default.

With them, a DELETE writes no changes, and Spark's change feed reads each file with a deleted row whole.
"""

_ROWS_PER_FILE = 1_000_000
_MOVED = 5
"""One update of so many moves the sale to another product."""


def make_sales(spark: SparkSession, path: Path, rows: int) -> None:
    """Write sales; those of a product are all over the table."""
    products = rows // SALES_PER_PRODUCT
    (
        spark.range(0, rows, 1, max(rows // _ROWS_PER_FILE, 1))
        .selectExpr(*_columns(products))
        .write.format("delta")
        .option("delta.enableChangeDataFeed", "true")
        .option("delta.enableDeletionVectors", DELETION_VECTORS)
        .save(str(path))
    )


def change_sales(spark: SparkSession, path: Path, rows: int, changes: int, number: int) -> None:
    """
    Change some sales in three commits: eight of ten are updated, one is deleted, and one is new.

    :param rows: the sales at first.
    :param changes: about how many sales change.
    :param number: counts the calls; other sales change in each.
    """
    products = rows // SALES_PER_PRODUCT
    changed = f"pmod(xxhash64(sale_id, {number}), {rows * 10 // changes})"
    spark.sql(
        f"UPDATE delta.`{path}` SET amount = amount + 1, product_id = CASE WHEN pmod(sale_id, {_MOVED}) = 0 THEN "
        f"pmod(product_id + {number}, {products}) ELSE product_id END WHERE {changed} < 8"
    )
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {changed} = 8")
    new = changes // 10
    first = rows + (number - 1) * new
    spark.range(first, first + new, 1, 1).selectExpr(*_columns(products)).write.format("delta").mode("append").save(
        str(path)
    )


def _columns(products: int) -> list[str]:
    return [
        "id AS sale_id",
        f"pmod(xxhash64(id), {products}) AS product_id",
        "CAST(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS amount",
        "timestamp_seconds(1700000000 + pmod(hash(id, 2), 10000000)) AS sold_at",
        "sha2(CAST(id AS STRING), 256) AS note",
    ]
