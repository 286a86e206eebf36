"""What queries over joins have in common: how many rows of leads a changed row affects."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes import KINDS
from airflow_backfill_provider.shapes.several import QueryTable

ROWS = {"orders": 1_000, "customers": 100}
TABLES = {
    "orders": QueryTable(key=("id",), types={"id": "long", "customer": "long", "parent": "long"}),
    "customers": QueryTable(key=("id",), types={"id": "long", "country": "string"}),
}
JOINED = "FROM orders AS o JOIN customers AS c ON c.id = o.customer"


@pytest.mark.parametrize(
    ("shape", "query", "affected"),
    [
        ("join", f"SELECT o.id, c.country {JOINED}", {"orders": 1, "customers": 10}),
        (
            "join",
            f"SELECT o.id, c.country, p.parent AS g {JOINED} LEFT JOIN orders AS p ON p.id = o.parent",
            {"orders": 2, "customers": 10},
        ),
        (
            "joined_groups",
            f"SELECT c.country, count(*) AS n {JOINED} GROUP BY c.country",
            {"orders": 1, "customers": 10},
        ),
        (
            "union",
            f"SELECT o.id, c.country {JOINED} UNION ALL SELECT id, country FROM customers UNION ALL "
            "SELECT id, 'none' FROM orders",
            {"orders": 2, "customers": 11},
        ),
    ],
)
def test_a_changed_row_affects_rows_in_all_branches_and_roles(shape, query, affected):
    resolved = KINDS.named(shape).query(query).resolved(TABLES)
    assert resolved.affected_by(ROWS) == affected
