"""
Keep an orders table in Delta changing: ``python -m demo.delta.writer TABLE``.

Each transaction is one commit, and all changes are in the table's change data feed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from demo.delta.table import append_orders
from demo.orders_writer import OrdersWriter, Span, Widths, write_until_stopped

WIDTHS = Widths(inserted=60, updated=150, deleted=40, rekeyed=30)
"""A commit costs about the same for one row and for many."""


class DeltaWriter(OrdersWriter):
    """
    Writes one commit at a time.

    :param path: the orders table; the options of an object store come from the environment.
    :param seed: the same seed makes the same choices.
    """

    def __init__(self, path: str, seed: int) -> None:
        self._path = path
        self._table = DeltaTable(path, storage_options=storage_options_from_environment())
        super().__init__(np.random.default_rng(seed), _newest_orders(self._table))

    def commit(self) -> None:
        """Write one operation as one commit."""
        self.operate(WIDTHS)
        self._table.update_incremental()
        self.report.commits += 1
        self.report.now_at = f"version {self._table.version()}"

    @property
    def version(self) -> int:
        """The newest version that it has seen."""
        return self._table.version()

    def append(self, orders: pa.Table) -> None:
        """Append orders."""
        append_orders(self._path, orders)

    def change(self, orders: Span, changes: Mapping[str, str]) -> int:
        """Update orders."""
        now = f"to_timestamp_micros({time.time_ns() // 1000})"
        metrics = self._table.update(predicate=orders.sql, updates={**changes, "updated_at": now})
        return int(metrics["num_updated_rows"])

    def remove(self, orders: Span) -> list[int]:
        """Delete orders."""
        query = QueryBuilder().register("orders", self._table)
        found = query.execute(f"SELECT order_id FROM orders WHERE {orders.sql}").read_all()
        self._table.delete(orders.sql)
        return list(found["order_id"].to_pylist())


def _newest_orders(table: DeltaTable) -> dict[str, int]:
    query = QueryBuilder().register("orders", table)
    found = query.execute("SELECT region, max(order_id) AS newest FROM orders GROUP BY region").read_all()
    return dict(zip(found["region"].to_pylist(), found["newest"].to_pylist(), strict=True))


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description="Keep a demo's orders table changing, until Ctrl-C.")
    parser.add_argument("table")
    parser.add_argument("--commits", type=int, help="stop after this number of commits")
    parser.add_argument("--pause", type=float, default=0.5, metavar="SECONDS", help="seconds between two commits")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    done = write_until_stopped(
        DeltaWriter(arguments.table, arguments.seed),
        commits=arguments.commits,
        pause=lambda: arguments.pause,
        report=arguments.report,
    )
    print(", ".join(f"{name} {count}" for name, count in asdict(done).items()))


if __name__ == "__main__":
    main()
