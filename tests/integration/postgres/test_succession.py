"""A view over a table in PostgreSQL is rebuilt while it serves."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.jobs import revert
from tests.integration.engine.succeeding import grow, grown, step
from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark

FORMER = "SELECT id, name FROM upstream"
LATTER = "SELECT id, price FROM upstream WHERE id <> 7"


@pytest.mark.exhaustive
def test_both_read_one_slot_and_the_way_back_is_open(shop: Shop) -> None:
    """The change log is landed once, and the rows of both are those of the database."""
    shop.run_sql(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10, 2))",
        "INSERT INTO orders SELECT i, 'n' || i, i FROM generate_series(1, 40) i",
        "ANALYZE orders",
    )
    shop.create(query=FORMER)
    shop.finish()
    protocol.finish_job(store=shop.backfill.store, requested_by="tester")
    grow(shop, **shop.of_database({"query": LATTER, "rate_limit": 25}))
    step(shop)
    shop.run_sql(
        "UPDATE orders SET price = -1, name = 'changed' WHERE id IN (3, 39)", "DELETE FROM orders WHERE id = 2"
    )
    shop.epoch()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
    grown(shop)
    shop.finish()
    assert shop.rows("id", "price") == shop.table("SELECT id, price FROM orders WHERE id <> 7")
    shop.run_sql("UPDATE orders SET price = 99 WHERE id = 4")
    shop.finish()
    assert shop.rows("id", "price") == shop.table("SELECT id, price FROM orders WHERE id <> 7")
    assert len(shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")) == 1
    revert.put_back(shop.backfill.store, engine=lambda: shop.engine, requested_by="tester")
    shop.define(**shop.of_database({"query": FORMER}))
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
