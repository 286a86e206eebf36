"""Sales of several shops, each with a table of its own, which all keep changing, and a view that unites them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation
from tests.integration.engine.many_tables import ManyTables

TABLES = {
    "berlin": ("id BIGINT, customer BIGINT, amount INT", ["id"]),
    "paris": ("id BIGINT, customer BIGINT, amount INT", ["id"]),
    "online": ("code STRING, customer BIGINT, amount INT", ["code"]),
    "customers": ("id BIGINT, name STRING", ["id"]),
}
"""The tables' columns and keys."""

SALES = (
    "SELECT 'berlin' AS shop, id, amount FROM berlin UNION ALL SELECT 'paris', id, amount FROM paris WHERE amount > 0"
)
"""Two shops whose keys are of one type."""

ALL_SALES = (
    "SELECT b.amount, c.name FROM berlin AS b LEFT JOIN customers AS c ON c.id = b.customer "
    "UNION ALL SELECT amount, code FROM online UNION ALL SELECT amount * 2, 'twice' FROM berlin WHERE amount > 5"
)
"""A branch that is a join, keys of two types that are not selected, and one table in two branches."""


class Shops(ManyTables):
    """The tables, and a job over some of them."""

    def __init__(
        self, spark: SparkSession, folder: Path | str, storage_options: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(spark, folder, storage_options)
        self.tables: tuple[str, ...] = ()

    def make(self, *names: str, rows: int = 20) -> None:
        """Create tables with some rows, in a file for each half of them."""
        half = rows // 2
        for name in names:
            inserts = (
                f"INSERT INTO {{{name}}} {_rows_of(name, first, last)}"
                for first, last in ((0, half), (half, rows))
                if last > first
            )
            self.make_table(name, TABLES[name][0], *inserts)

    def define_sales(self, query: str = SALES, **fields: Any) -> None:
        """Define a view over the tables that a query reads."""
        self.tables = tuple(name for name in TABLES if f" {name}" in query)
        definition = {
            "name": "sales",
            "upstreams": {name: {"path": self.location(name), "key": TABLES[name][1]} for name in self.tables},
            "materialized_view": self.view_path,
            "query": query,
            "vnode_count": 4,
            **fields,
        }
        self.job = BackfillJob(**definition)

    def start(self) -> None:
        """Create the job."""
        self.create_defined()

    def rebuild_sales(self) -> None:
        """Start the job over with its definition."""
        self.start_job(creation.rebuild_job, self.backfill)

    def assert_united(self) -> None:
        """Compare the view with the query over the tables as they are now, and with a verification (I1)."""
        self.assert_query()
        self.assert_truth()


def _rows_of(name: str, first: int, last: int) -> str:
    key = "concat('o', id)" if name == "online" else "id"
    others = "concat('c', id)" if name == "customers" else "IF(id % 7 = 0, NULL, id % 6), CAST(id % 11 AS INT)"
    return f"SELECT {key}, {others} FROM range({first}, {last}, 1, 1)"
