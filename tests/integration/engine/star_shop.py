"""Orders, what they are made of and who placed them, in tables that all keep changing, and views that join them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED
from tests.integration.engine.many_tables import ManyTables

TABLES = {
    "orders": ("id BIGINT NOT NULL, customer BIGINT, parent BIGINT, amount INT", ["id"]),
    "customers": ("id BIGINT NOT NULL, name STRING, country STRING", ["id"]),
    "countries": ("code STRING, title STRING", ["code"]),
    "lines": ("order_id BIGINT, line INT, product STRING, price INT", ["order_id", "line"]),
}
"""The tables' columns and keys."""

STAR = (
    "SELECT o.id, o.amount, c.name, n.title FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer "
    "LEFT JOIN countries AS n ON n.code = c.country"
)
"""Lookups, the second one through the first."""

ROWS = (
    "INSERT INTO {orders} SELECT id, IF(id % 7 = 0, NULL, id % 6), id DIV 3, CAST(id AS INT) FROM range(40)",
    "INSERT INTO {customers} SELECT id, concat('c', id), element_at(array('fr', 'de', NULL), CAST(id % 3 + 1 AS INT)) "
    "FROM range(5)",
    "INSERT INTO {countries} VALUES ('fr', 'France'), ('es', 'Spain')",
    "INSERT INTO {lines} SELECT id % 23, CAST(id DIV 23 AS INT), concat('p', id % 4), CAST(id % 5 AS INT) "
    "FROM range(60)",
)
"""Rows that match nothing, one and several; and nulls in what is joined by."""


WITHOUT_FEED = {"delta.enableChangeDataFeed": "false"}


class StarShop(ManyTables):
    """The tables, and a job over some of them."""

    def fill(self, *names: str, unrecorded: Collection[str] = ()) -> None:
        """
        Create tables with rows; by default all of them.

        :param unrecorded: those that record no changes.
        """
        for name, (columns, _) in TABLES.items():
            if not names or name in names:
                rows = (statement for statement in ROWS if f"{{{name}}}" in statement)
                properties = WITHOUT_FEED if name in unrecorded else CHANGE_DATA_FEED
                self.make_table(name, columns, *rows, properties=properties)

    def start(self, query: str, **fields: Any) -> None:
        """Create a job with a query over tables of the shop."""
        self.job = BackfillJob(
            **{
                "name": "star",
                "upstreams": {name: {"path": self.location(name), "key": TABLES[name][1]} for name in _read_by(query)},
                "materialized_view": self.view_path,
                "query": query,
                "vnode_count": 4,
                **fields,
            }
        )
        self.create_defined()

    def assert_joined(self) -> None:
        """Compare the view with the query over the tables as they are now, and by a verification (I1)."""
        self.assert_query()
        self.assert_truth()


def _read_by(query: str) -> Iterable[str]:
    """Return the tables that a query reads."""
    return dict.fromkeys(re.findall(r"(?:FROM|JOIN) (\w+)\b", query))
