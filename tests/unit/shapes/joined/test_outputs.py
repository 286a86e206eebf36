"""The columns that a query gives, in Spark's order and with Spark's names."""

from __future__ import annotations

import pytest

from tests.unit.shapes.joined.shop import resolved

ORDERS = ["id", "customer_id", "parent_id", "day", "amount"]
RETURNS = ["id", "order_id", "day"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "SELECT O.ID, c.Name AS n, upper(c.name), o.day.year FROM orders o JOIN customers c ON c.id = o.id",
            ["ID", "n", "", "year"],
        ),
        ("SELECT o.* FROM orders o JOIN returns r ON r.id = o.id", ORDERS),
        (
            "SELECT o.* EXCEPT (id, day), r.* FROM orders o JOIN returns r ON r.id = o.id",
            [*ORDERS[1:3], "amount", *RETURNS],
        ),
        # USING gives its columns first, and once.
        (
            "SELECT * FROM (SELECT id AS k, day FROM orders) JOIN (SELECT id, order_id AS k FROM returns) USING (k)",
            ["k", "day", "id"],
        ),
        (
            "SELECT * FROM (SELECT day AS d, id AS k FROM orders) RIGHT JOIN (SELECT id, order_id AS k FROM "
            "returns) USING (k)",
            ["k", "d", "id"],
        ),
        (
            "SELECT r.* FROM (SELECT id AS order_id FROM orders) o JOIN returns r USING (order_id)",
            ["order_id", "id", "day"],
        ),
        (
            "SELECT c.* FROM orders JOIN returns USING (id), customers c WHERE c.id = orders.customer_id",
            ["id", "name", "country", "code", "vip"],
        ),
        # A semi join gives nothing.
        ("SELECT * FROM orders o LEFT SEMI JOIN returns r ON r.order_id = o.id", ORDERS),
        # A union has the names of its first branch.
        ("SELECT id AS a, day AS b FROM orders UNION ALL SELECT id, id FROM returns", ["a", "b"]),
        ("SELECT *, 1 AS one FROM (SELECT id AS a FROM orders UNION ALL SELECT id FROM returns)", ["a", "one"]),
    ],
)
def test_the_columns_of_a_query_have_sparks_names_and_order(text, names):
    """Only Spark knows the name of an expression without an alias."""
    assert [output.name for output in resolved(text).outputs] == names
