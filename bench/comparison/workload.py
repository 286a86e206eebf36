"""The workload of the comparison: an upstream of orders, and a history of commits that change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.measuring import ORDERED, RANDOM, ROWS_PER_FILE

QUERY = (
    "SELECT order_id, customer_id, status, quantity, amount * 100 AS cents, currency, country, ordered_at, shipped_at, "
    "coupon, note FROM upstream WHERE status <> 'cancelled'"
)
"""The view's query: a filter that three of four rows pass, and most of the columns."""

KEYS = {"ordered": ORDERED, "random": RANDOM}
"""The orders' keys as expressions of ``id``, an order's number in order of arrival."""


@dataclass(frozen=True, slots=True)
class Workload:
    """
    One upstream and its changes.

    :param keys: ``ordered`` by time, or in ``random`` order.
    :param change: the kind of change: ``updates``, ``appends`` or ``deletes``.
    :param per_mille: how many of a thousand first rows each commit changes, spread over all keys.
    :param rows: the number of first rows.
    :param epochs: the number of commits after the first one, and of epochs of the backfill.
    """

    keys: str
    change: str
    per_mille: int
    rows: int
    epochs: int

    @property
    def name(self) -> str:
        """The workload in a few words."""
        changed = f"{self.per_mille / 10:g}% {self.change} per epoch" if self.per_mille else "no changes"
        return f"{self.keys} keys, {changed}"

    @property
    def changed_rows(self) -> int:
        """The number of rows that one commit changes."""
        return self.rows * self.per_mille // 1000

    def key_bounds(self) -> list[str]:
        """Return the keys that divide the first rows into as many ranges as there are epochs."""
        cuts = range(1, self.epochs)
        if self.keys == "ordered":
            return [f"{self.rows * cut // self.epochs - 1:032}" for cut in cuts]
        return [f"{16**8 * cut // self.epochs:08x}" for cut in cuts]


def make_history(spark: SparkSession, path: Path, workload: Workload) -> None:
    """Write the upstream with all its commits: the first rows, then one commit of changes for each epoch."""
    (
        _orders(spark, workload, 0, workload.rows)
        .write.format("delta")
        .option("delta.enableChangeDataFeed", "true")
        .option("delta.enableDeletionVectors", "true")
        # The log is replayed commit by commit, and a checkpoint would contain later commits.
        .option("delta.checkpointInterval", "1000000")
        .save(str(path))
    )
    if workload.per_mille:
        for epoch in range(1, workload.epochs + 1):
            _CHANGES[workload.change](spark, path, workload, epoch)


def _orders(spark: SparkSession, workload: Workload, first: int, last: int) -> DataFrame:
    return spark.range(first, last, 1, max((last - first) // ROWS_PER_FILE, 1)).selectExpr(
        f"{KEYS[workload.keys]} AS order_id",
        "CAST(pmod(hash(id), 100000) AS INT) AS customer_id",
        "element_at(array('paid', 'open', 'shipped', 'cancelled'), 1 + pmod(hash(id, 2), 4)) AS status",
        "CAST(1 + pmod(hash(id, 3), 9) AS INT) AS quantity",
        "CAST(pmod(hash(id, 1), 1000000) / 100 AS DECIMAL(10,2)) AS amount",
        "element_at(array('EUR', 'USD', 'CHF'), 1 + pmod(hash(id, 4), 3)) AS currency",
        "element_at(array('DE', 'FR', 'IT', 'CH', 'US'), 1 + pmod(hash(id, 5), 5)) AS country",
        "timestamp_seconds(1700000000 + id) AS ordered_at",
        "timestamp_seconds(1700086400 + id + pmod(hash(id, 6), 86400)) AS shipped_at",
        "IF(pmod(hash(id, 7), 10) = 0, concat('C', pmod(hash(id, 8), 1000)), NULL) AS coupon",
        "sha2(CAST(id AS STRING), 256) AS note",
        "pmod(hash(id, 9), 1000) / 1000 AS discount",
    )


def _chosen(workload: Workload, epoch: int) -> str:
    """Return a condition for about as many rows as a commit changes, different ones in each epoch."""
    return f"pmod(hash(order_id, {epoch}), {1000 // workload.per_mille}) = 0"


def _update(spark: SparkSession, path: Path, workload: Workload, epoch: int) -> None:
    spark.sql(
        f"UPDATE delta.`{path}` SET amount = amount + 1, "
        "status = element_at(array('paid', 'open', 'shipped', 'cancelled'), "
        f"1 + pmod(hash(order_id, {epoch}, 1), 4)) WHERE {_chosen(workload, epoch)}"
    )


def _delete(spark: SparkSession, path: Path, workload: Workload, epoch: int) -> None:
    spark.sql(f"DELETE FROM delta.`{path}` WHERE {_chosen(workload, epoch)}")


def _append(spark: SparkSession, path: Path, workload: Workload, epoch: int) -> None:
    first = workload.rows + (epoch - 1) * workload.changed_rows
    _orders(spark, workload, first, first + workload.changed_rows).write.format("delta").mode("append").save(str(path))


_CHANGES: dict[str, Callable[[SparkSession, Path, Workload, int], None]] = {
    "updates": _update,
    "appends": _append,
    "deletes": _delete,
}
