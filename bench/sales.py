"""A table of sales that name rows of other tables, and what happens to it between two epochs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

DELETION_VECTORS = os.environ.get("BENCH_DELETION_VECTORS", "false")
"""
Whether the sales have deletion vectors; new tables have none by default.

With them, a DELETE writes no changes, and Spark's change feed reads each file with a deleted row whole.
"""

_ROWS_PER_FILE = 1_000_000
_MOVED = 5
"""One update of so many moves the sale to another row of the first table that it names."""


@dataclass(frozen=True, slots=True)
class Sales:
    """
    A table of sales; those that name one row of another table are all over it.

    :param path: where it is.
    :param rows: the sales at first.
    :param names: the columns that name rows of other tables, each with the number of these rows; a changed sale may
        name another row in the first of them.
    """

    path: Path
    rows: int
    names: Mapping[str, int]

    def make(self, spark: SparkSession) -> None:
        """Write the sales."""
        (
            spark.range(0, self.rows, 1, max(self.rows // _ROWS_PER_FILE, 1))
            .selectExpr(*self._columns())
            .write.format("delta")
            .option("delta.enableChangeDataFeed", "true")
            .option("delta.enableDeletionVectors", DELETION_VECTORS)
            .save(str(self.path))
        )

    def change(self, spark: SparkSession, changes: int, number: int) -> None:
        """
        Change some sales in three commits: eight of ten are updated, one is deleted, and one is new.

        :param changes: about how many sales change.
        :param number: counts the calls; other sales change in each.
        """
        named, values = next(iter(self.names.items()))
        changed = f"pmod(xxhash64(sale_id, {number}), {self.rows * 10 // changes})"
        spark.sql(
            f"UPDATE delta.`{self.path}` SET amount = amount + 1, {named} = CASE WHEN pmod(sale_id, {_MOVED}) = 0 THEN "
            f"pmod({named} + {number}, {values}) ELSE {named} END WHERE {changed} < 8"
        )
        spark.sql(f"DELETE FROM delta.`{self.path}` WHERE {changed} = 8")
        new = changes // 10
        first = self.rows + (number - 1) * new
        spark.range(first, first + new, 1, 1).selectExpr(*self._columns()).write.format("delta").mode("append").save(
            str(self.path)
        )

    def _columns(self) -> list[str]:
        seeds = ["", *(f", {seed}" for seed in range(1, len(self.names)))]
        return [
            "id AS sale_id",
            *(
                f"pmod(xxhash64(id{seed}), {values}) AS {named}"
                for seed, (named, values) in zip(seeds, self.names.items(), strict=True)
            ),
            "CAST(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS amount",
            "timestamp_seconds(1700000000 + pmod(hash(id, 2), 10000000)) AS sold_at",
            "sha2(CAST(id AS STRING), 256) AS note",
        ]
