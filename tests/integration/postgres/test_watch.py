"""Polling a table of a real PostgreSQL: a look is another one only if an epoch may have something to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres import watch
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from airflow_backfill_provider.sources.watch import SourceWatch
from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark


def watch_of(table: str = "public.orders") -> SourceWatch:
    upstream = PostgresUpstream(connection="shop_db", table=table, key=("id",))
    return PostgresSource(PostgresTable(upstream.for_job("watched", "/nowhere"))).watch()


def looked(found: SourceWatch) -> Offset:
    offset, _ = found.look()
    assert offset is not None
    return offset


@pytest.fixture
def count_at_once(shop: Shop) -> Callable[[], None]:
    """Makes the server count what the session has changed, which it does some seconds later by itself."""

    def count() -> None:
        shop.database.execute("SELECT pg_stat_force_next_flush()")
        shop.database.execute("SELECT 1")

    return count


def test_a_look_is_the_same_until_the_table_changes(shop: Shop, count_at_once: Callable[[], None]) -> None:
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)", "CREATE TABLE others (id int)")
    found = watch_of()
    before = found.look()
    shop.run_sql("INSERT INTO others SELECT generate_series(1, 1000)")
    count_at_once()
    assert found.look() == before
    for change in (
        "INSERT INTO orders VALUES (1, 'a')",
        "UPDATE orders SET name = 'b'",
        "DELETE FROM orders",
        "TRUNCATE orders",
    ):
        last = looked(found)
        shop.run_sql(change)
        count_at_once()
        newest = looked(found)
        assert newest > last
        assert looked(found) == newest
        assert found.seen_at(newest).tzinfo is not None


def test_a_change_of_a_partition_is_one_of_its_table(shop: Shop, count_at_once: Callable[[], None]) -> None:
    shop.run_sql(
        "CREATE TABLE orders (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (0) TO (10)",
    )
    found = watch_of()
    last = looked(found)
    shop.run_sql("INSERT INTO orders VALUES (1)")
    count_at_once()
    assert looked(found) > last


def test_much_log_of_other_tables_needs_an_epoch_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server keeps this log until an epoch has landed it."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE others (id int)")
    monkeypatch.setattr(watch, "MOST_UNSEEN_BYTES", 100_000)
    found = watch_of()
    last = looked(found)
    shop.run_sql("INSERT INTO others SELECT generate_series(1, 10000)")
    assert looked(found) > last


def test_a_slot_that_comes_or_goes_is_another_look(shop: Shop) -> None:
    """I6: an epoch refuses a slot that is gone, so one has to be requested."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY)")
    found = watch_of()
    looks = [found.look()]
    for statement in ("pg_create_logical_replication_slot(%s, 'pgoutput')", "pg_drop_replication_slot(%s)"):
        shop.database.execute(f"SELECT {statement}", ["airflow_backfill_watched"])
        looks.append(found.look())
        assert looks[-1] == found.look()
        assert looks[-1] != looks[-2]


def test_a_table_that_is_not_there_has_no_offset(shop: Shop) -> None:
    found = watch_of("public.nowhere")
    assert found.look()[0] is None
    shop.run_sql("CREATE TABLE nowhere (id int PRIMARY KEY)")
    assert found.look()[0] is not None
