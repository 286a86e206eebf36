"""A table of a real PostgreSQL becomes a view while it takes writes."""

from __future__ import annotations

import pytest

from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
@pytest.mark.smoke
def test_a_view_is_its_query_while_the_table_takes_writes(shop: Shop) -> None:
    """I1: after every epoch, up to its position."""
    shop.run_sql(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10, 2))",
        "INSERT INTO orders SELECT i, 'n' || i, i FROM generate_series(1, 40) i",
        "ANALYZE orders",
    )
    shop.create(rate_limit=15, query="SELECT id, name, price FROM upstream WHERE id <> 7")
    writes = (
        ("UPDATE orders SET price = price + 1 WHERE id IN (3, 14, 38)", "DELETE FROM orders WHERE id IN (2, 39)"),
        ("UPDATE orders SET id = 100 WHERE id = 5", "UPDATE orders SET id = -1 WHERE id = 37"),
        ("INSERT INTO orders VALUES (2, 'again', 2), (20000, 'last', 1)", "DELETE FROM orders WHERE id = 14"),
    )
    shop.epoch()
    for statements in writes:
        shop.run_sql(*statements)
        assert shop.epoch() is not None
    shop.finish()
    assert shop.rows("id", "name", "price") == shop.table("SELECT id, name, price FROM orders WHERE id <> 7")
