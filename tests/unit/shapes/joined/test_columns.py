"""The columns of each upstream that a query reads."""

from __future__ import annotations

import pytest

from tests.unit.shapes.joined.shop import SHOP, resolved

ALL_ORDERS = SHOP["orders"].names

USED = [
    (
        "SELECT o.id, name FROM orders o JOIN customers c ON c.id = customer_id WHERE vip",
        {"orders": ("id", "customer_id"), "customers": ("id", "name", "vip")},
    ),
    (
        "SELECT o.*, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
        {"orders": ALL_ORDERS, "customers": ("id", "name")},
    ),
    (
        "SELECT O.ID, C.Name FROM orders o JOIN customers c ON C.ID = O.CUSTOMER_ID",
        {"orders": ("id", "customer_id"), "customers": ("id", "name")},
    ),
    (
        "SELECT customers.name, orders.day FROM orders JOIN customers USING (id)",
        {"orders": ("id", "day"), "customers": ("id", "name")},
    ),
    # A name that is qualified by another relation is no column of this one.
    ("SELECT o.day, r.id FROM orders o JOIN returns r ON r.order_id = o.id", {"returns": ("id", "order_id")}),
    # An alias that is also the name of a column counts for both, to be on the safe side.
    ("SELECT day.id AS x FROM orders day JOIN returns r ON r.order_id = day.id", {"returns": ("order_id", "day")}),
    # Fields of a column.
    (
        "SELECT o.day.year AS y, amount.x FROM orders o JOIN returns r ON r.order_id = o.id",
        {"orders": ("id", "day", "amount")},
    ),
    # Of two roles of one table, what either reads.
    (
        "SELECT o.id, p.day FROM orders o LEFT JOIN orders p ON p.id = o.parent_id",
        {"orders": ("id", "parent_id", "day")},
    ),
    # Steps before a join, and after it.
    (
        "WITH c AS (SELECT id, upper(name) AS name FROM customers WHERE vip) SELECT o.id, c.name FROM (SELECT * FROM "
        "orders) o JOIN c ON c.id = o.customer_id",
        {"orders": ("id", "customer_id"), "customers": ("id", "name", "vip")},
    ),
    (
        "SELECT day FROM (SELECT o.*, r.order_id FROM orders o JOIN returns r ON r.order_id = o.id) WHERE amount > 1",
        {"orders": ("id", "day", "amount"), "returns": ("order_id",)},
    ),
    (
        "SELECT count(*) AS n FROM (SELECT * FROM orders o JOIN lines l ON l.order_id = o.id) GROUP BY product",
        {"orders": ("id",), "lines": ("order_id", "product")},
    ),
    (
        "SELECT o.id, struct(o.*) AS s FROM orders o JOIN returns r ON r.order_id = o.id",
        {"orders": ALL_ORDERS, "returns": ("id", "order_id", "day")},
    ),
    # A pipe operator still knows the join's relations.
    (
        "FROM orders o JOIN customers c ON c.id = o.customer_id |> WHERE o.day > 1 |> SELECT o.id, c.name",
        {"orders": ("id", "customer_id", "day"), "customers": ("id", "name")},
    ),
    # A subquery reads its own columns, and those around it.
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT * FROM lines WHERE order_id = o.id AND price > amount)",
        {"orders": ("id", "amount"), "lines": ("order_id", "price")},
    ),
    (
        "SELECT id FROM orders WHERE customer_id IN (SELECT c.id FROM customers c)",
        {"orders": ("id", "customer_id"), "customers": ("id",)},
    ),
    # The branches of a union.
    (
        "SELECT id FROM (SELECT * FROM orders UNION ALL SELECT id, id, id, price, price FROM lines l JOIN products "
        "p ON "
        "p.id = l.product)",
        {"orders": ALL_ORDERS, "lines": ("product", "price"), "products": ("id",)},
    ),
]


@pytest.mark.parametrize(("text", "columns"), USED)
def test_only_columns_that_a_query_may_name_are_read(text, columns):
    """Fewer columns make smaller files and shuffles; none is left out that Spark could read a name as."""
    used = resolved(text).used_columns
    assert {name: used[name] for name in columns} == columns


def test_the_columns_of_keys_are_read_as_well():
    """Of the lead, and of what fans out; a lookup is told by its parent."""
    found = resolved(
        "SELECT o.day, c.name, p.kind FROM orders o JOIN customers c ON c.id = o.customer_id JOIN lines l ON "
        "l.order_id "
        "= o.id JOIN products p ON p.id = l.product"
    )
    assert found.columns == {
        "orders": ("id", "customer_id", "day"),
        "customers": ("id", "name"),
        "lines": ("order_id", "number", "product"),
        "products": ("id", "kind"),
    }


def test_old_images_have_the_columns_to_join_by_or_all_that_groups_need():
    """Rows need the leads of a change alone; groups, what the rows before it were."""
    joined = "FROM orders o LEFT JOIN customers c ON c.code = o.customer_id"
    assert resolved(f"SELECT o.id, c.name {joined}").old_columns == {"customers": ("code",), "orders": ("id",)}
    groups = resolved(f"SELECT c.name, sum(o.amount) AS s {joined} GROUP BY c.name")
    assert groups.old_columns == groups.columns
