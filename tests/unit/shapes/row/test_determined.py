"""The columns of a view of rows that the upstream's key alone decides."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.row.query import check_query

AVAILABLE = ["order_id", "amount", "status"]


@pytest.mark.parametrize(
    ("query", "column", "text"),
    [
        ("SELECT order_id FROM upstream", "order_id", "`order_id`"),
        ("SELECT order_id AS n FROM upstream", "N", "`order_id`"),
        ("SELECT amount FROM upstream", "__key_order_id", "`order_id`"),
        ("SELECT order_id % 16 AS b, amount FROM upstream", "B", "order_id % 16"),
        ("SELECT *, pmod(hash(order_id), 4) b FROM upstream WHERE amount > 1", "b", "pmod(hash(order_id), 4)"),
        ("SELECT amount, /* why */ order_id /* not */ + 1 AS `b` FROM upstream", "b", "order_id           + 1"),
    ],
)
def test_the_key_decides_its_columns_and_expressions_over_them(query, column, text):
    assert check_query(query).decided_by_key([column], ["order_id"], AVAILABLE) == {column: text}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT order_id, status AS b FROM upstream",
        "SELECT order_id, order_id + amount AS b FROM upstream",
        "SELECT order_id, CASE WHEN status = 'paid' THEN order_id END AS b FROM upstream",
        # Another column of the query, by its alias
        "SELECT amount AS a, a + order_id AS b FROM upstream",
        # Several levels
        "SELECT order_id, order_id % 2 AS b FROM (SELECT amount AS order_id FROM upstream)",
        "FROM upstream |> SELECT order_id, order_id % 2 AS b",
        "SELECT u.order_id % 2 AS b FROM upstream AS u",
    ],
)
def test_of_other_columns_nothing_is_certain(query):
    assert check_query(query).decided_by_key(["b"], ["order_id"], AVAILABLE) == {}


def test_every_column_of_the_key_may_decide():
    query = check_query("SELECT order_id, status, concat(status, order_id) AS b FROM upstream")
    assert query.decided_by_key(["b"], ["status", "order_id"], AVAILABLE) == {"b": "concat(status, order_id)"}
    assert query.decided_by_unit(["b", "amount"], ["status", "order_id"], AVAILABLE) == {
        "b": "concat(status, order_id)"
    }
