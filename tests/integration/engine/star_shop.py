"""Orders, their customers and the customers' countries, which all keep changing, and a view that joins them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.jobs import creation
from tests.integration.engine.lakehouse import Lakehouse

TABLES = {
    "orders": ("id BIGINT, customer BIGINT, amount INT", ["id"]),
    "customers": ("id BIGINT, name STRING, country STRING", ["id"]),
    "countries": ("code STRING, title STRING", ["code"]),
    "lines": ("order_id BIGINT, line INT, product STRING, price INT", ["order_id", "line"]),
}
"""The tables' columns and keys."""

STAR = (
    "SELECT o.id, o.amount, c.name, n.title FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer "
    "LEFT JOIN countries AS n ON n.code = c.country"
)


class StarShop(Lakehouse):
    """The tables, and a job over some of them."""

    def table(self, name: str) -> str:
        """Return a table's name in SQL."""
        return f"delta.{quote(f'{self.folder}/{name}')}"

    def change(self, *statements: str) -> None:
        """Run statements; the tables' names in braces stand for them."""
        for statement in statements:
            self.spark.sql(self._named(statement))

    def make(self, *names: str) -> None:
        """Create tables without rows."""
        for name in names:
            columns, _ = TABLES[name]
            self.change(
                f"CREATE TABLE {{{name}}} ({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            )

    def fill(self) -> None:
        """Create the tables of the star, with rows that match nothing and others that match several."""
        self.make("orders", "customers", "countries")
        self.change(
            "INSERT INTO {orders} SELECT id, IF(id % 7 = 0, NULL, id % 6), CAST(id AS INT) FROM range(40)",
            "INSERT INTO {customers} SELECT id, concat('c', id), element_at(array('fr', 'de', NULL), CAST(id % 3 + 1 "
            "AS INT)) FROM range(5)",
            "INSERT INTO {countries} VALUES ('fr', 'France'), ('es', 'Spain')",
        )

    def define_view(
        self, query: str = STAR, tables: Iterable[str] = ("orders", "customers", "countries"), **fields: Any
    ) -> None:
        """Define a view over tables."""
        definition = {
            "name": "star",
            "upstreams": {name: {"path": f"{self.folder}/{name}", "key": TABLES[name][1]} for name in tables},
            "materialized_view": self.view_path,
            "query": query,
            "vnode_count": 4,
            **fields,
        }
        self.job = BackfillJob(**definition)

    def start(self) -> None:
        """Create the job."""
        self.start_job(creation.create_job, self.backfill)

    def pin(self) -> Barrier:
        """Pin the next barrier."""
        barrier = self.inject()
        assert barrier is not None
        return barrier

    def assert_joined(self) -> None:
        """Compare the view with the query over the tables as they are now, and with a verification (I1)."""
        self.assert_truth()
        assert self.job is not None
        text = self.job.query
        for name in self.job.all_upstreams:
            text = text.replace(f"FROM {name}", f"FROM {{{name}}}").replace(f"JOIN {name}", f"JOIN {{{name}}}")
        self.assert_equals_query(self._named(text))

    def _named(self, statement: str) -> str:
        names: Mapping[str, str] = {name: self.table(name) for name in TABLES}
        for name, table in names.items():
            statement = statement.replace(f"{{{name}}}", table)
        return statement
