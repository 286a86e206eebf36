"""The origins of a view's columns, by upstream and column."""

from __future__ import annotations

from airflow_backfill_provider.shapes.joined.lineage import JoinedOrigin
from tests.unit.shapes.joined.shop import resolved


def test_each_column_comes_from_its_own_upstreams():
    """Through qualified names, stars, steps and subqueries; conditions say which rows there are."""
    found = resolved(
        "WITH c AS (SELECT id, upper(name) AS who, country FROM customers WHERE vip) SELECT o.id, who, o.amount * "
        "length(k.name) AS x, k.code FROM orders o JOIN c ON c.id = o.customer_id LEFT JOIN countries k ON k.code = "
        "c.country WHERE o.day > 1 AND EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)"
    ).lineage
    assert found.columns == {
        "id": JoinedOrigin((("orders", "id"),), unchanged=True),
        "who": JoinedOrigin((("customers", "name"),), unchanged=False),
        "x": JoinedOrigin((("orders", "amount"), ("countries", "name")), unchanged=False),
        "code": JoinedOrigin((("countries", "code"),), unchanged=True),
    }
    assert found.filtered_by == (
        ("orders", "id"),
        ("orders", "customer_id"),
        ("orders", "day"),
        ("customers", "id"),
        ("customers", "country"),
        ("customers", "vip"),
        ("countries", "code"),
        ("lines", "order_id"),
    )


def test_a_column_of_a_union_comes_from_all_branches():
    """By its place, whatever the branches call it."""
    found = resolved(
        "SELECT n, d + 1 AS d FROM (SELECT day AS d, amount AS n FROM orders UNION ALL SELECT day, order_id FROM "
        "returns "
        "WHERE id > 1) WHERE n > 0"
    ).lineage
    assert found.columns == {
        "n": JoinedOrigin((("orders", "amount"), ("returns", "order_id")), unchanged=False),
        "d": JoinedOrigin((("orders", "day"), ("returns", "day")), unchanged=False),
    }
    assert found.filtered_by == (("orders", "amount"), ("returns", "id"), ("returns", "order_id"))


def test_a_group_comes_from_the_columns_that_it_counts_and_is_divided_by():
    """As far as its list of columns names them."""
    found = resolved(
        "SELECT c.country, sum(o.amount) AS s FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.country"
    ).lineage
    assert found.columns["s"] == JoinedOrigin((("orders", "amount"),), unchanged=False)
    assert found.columns["country"] == JoinedOrigin((("customers", "country"),), unchanged=True)
