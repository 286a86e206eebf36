"""Tables and partitions that leave and come back between two epochs: what changed meanwhile is in no log."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import ChangeFeedGapError, DatabaseRefusedError, UpstreamError
from tests.integration.engine.lakehouse import TESTER
from tests.integration.postgres.shop import Shop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text)"
PUBLICATION = "airflow_backfill_orders_view"
PARTITIONED = (
    "CREATE TABLE orders (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (1000)",
)


def fill(shop: Shop, first: int, last: int) -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, 'n' || i FROM generate_series({first}, {last}) i")


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


def assert_gap_until_rebuilt(shop: Shop, what: str) -> None:
    """Each request is refused, before anything is written; a rebuild helps."""
    before = shop.rows("id", "name")
    for _ in range(2):
        with pytest.raises(ChangeFeedGapError, match=f"{what}.*rebuild the job"):
            shop.epoch()
    assert [alarm.kind for alarm in shop.backfill.status().alarms] == ["headroom"]
    assert shop.rows("id", "name") == before
    shop.rebuild_with()
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (
            [
                f"ALTER PUBLICATION {PUBLICATION} DROP TABLE orders",
                "UPDATE orders SET name = 'unseen' WHERE id = 2",
                f"ALTER PUBLICATION {PUBLICATION} ADD TABLE orders",
            ],
            f"changes while the table was not in publication {PUBLICATION}",
        ),
        (
            [
                f"ALTER PUBLICATION {PUBLICATION} SET TABLE orders WHERE (id > 3)",
                "UPDATE orders SET name = 'unseen' WHERE id = 2",
                f"ALTER PUBLICATION {PUBLICATION} SET TABLE orders",
            ],
            f"changes while the table was not in publication {PUBLICATION}",
        ),
        (
            [
                f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert')",
                "UPDATE orders SET name = 'unseen' WHERE id = 2",
                f"ALTER PUBLICATION {PUBLICATION} SET (publish = 'insert, update, delete, truncate')",
            ],
            f"changes that publication {PUBLICATION} may have left out",
        ),
        (
            [f"DROP PUBLICATION {PUBLICATION}", f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders"],
            f"changes that publication {PUBLICATION} may have left out",
        ),
    ],
)
def test_a_table_that_left_its_publication_and_came_back_is_a_gap(shop: Shop, statements: list[str], what: str) -> None:
    """I6: whoever looks only at both ends sees a published table."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    for statement in statements:
        shop.run_sql(statement)
    fill(shop, 6, 7)
    (alarm,) = shop.backfill.status().alarms
    assert alarm.kind == "replaced"
    assert what in alarm.message
    assert_gap_until_rebuilt(shop, what)


@pytest.mark.exhaustive
def test_a_publication_that_gets_another_table_still_has_this_one(shop: Shop) -> None:
    shop.run_sql(ORDERS, "CREATE TABLE others (id int)")
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.run_sql(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE others")
    shop.run_sql(f"ALTER PUBLICATION {PUBLICATION} DROP TABLE others")
    shop.run_sql(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE others")
    for catalog in ("pg_publication", "pg_publication_rel"):
        shop.database.execute(f"VACUUM (FULL, FREEZE) {catalog}")
    fill(shop, 6, 7)
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_window_that_ends_before_the_table_came_back_is_refused_too(shop: Shop) -> None:
    """I6: a scheduled run reads up to the end of its interval, and nobody knows when exactly the table was away."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.run_sql(f"ALTER PUBLICATION {PUBLICATION} DROP TABLE orders")
    shop.run_sql("UPDATE orders SET name = 'unseen' WHERE id = 2")
    shop.run_sql(f"ALTER PUBLICATION {PUBLICATION} ADD TABLE orders")
    fill(shop, 6, 6)
    (until,) = shop.database.execute("SELECT clock_timestamp()").fetchall()[0]
    fill(shop, 7, 7)
    assert isinstance(until, dt.datetime)
    backfill = shop.backfill
    with pytest.raises(ChangeFeedGapError, match="while the table was not in publication"):
        protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=TESTER, until=until)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "statements",
    [
        [
            "ALTER TABLE orders DETACH PARTITION low",
            "INSERT INTO low VALUES (7, 'unseen')",
            "ALTER TABLE orders ATTACH PARTITION low FOR VALUES FROM (0) TO (10)",
        ],
        [
            "ALTER TABLE orders DETACH PARTITION low CONCURRENTLY",
            "DELETE FROM low WHERE id = 3",
            "ALTER TABLE orders ATTACH PARTITION low FOR VALUES FROM (0) TO (10)",
        ],
    ],
)
def test_a_partition_that_was_detached_and_attached_again_is_a_gap(shop: Shop, statements: list[str]) -> None:
    """I6: at both ends the table has the same partitions."""
    shop.run_sql(*PARTITIONED)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    for statement in statements:
        shop.database.execute(statement)
    assert_gap_until_rebuilt(shop, "DETACH of partition public.low, which was attached again")


@pytest.mark.exhaustive
def test_a_tree_of_partitions_that_is_attached_is_a_gap(shop: Shop) -> None:
    """I6: also as the first of all; its leaves were made as partitions of something else."""
    shop.run_sql(PARTITIONED[0])
    shop.create()
    shop.finish()
    shop.run_sql(
        "CREATE TABLE tree (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF tree FOR VALUES FROM (0) TO (10)",
        "INSERT INTO tree VALUES (1, 'unseen')",
        "ALTER TABLE orders ATTACH PARTITION tree FOR VALUES FROM (0) TO (10)",
    )
    assert_gap_until_rebuilt(shop, "ATTACH of partition public.leaf")


@pytest.mark.exhaustive
def test_a_partition_that_is_made_or_renamed_or_attached_empty_is_no_gap(shop: Shop) -> None:
    """Whoever owns it then."""
    shop.run_sql(*PARTITIONED)
    fill(shop, 1, 20)
    shop.create()
    shop.finish()
    shop.run_sql(
        "CREATE TABLE more PARTITION OF orders FOR VALUES FROM (1000) TO (2000)",
        "ALTER TABLE more OWNER TO pg_database_owner",
        "ALTER TABLE low RENAME TO lowest",
        "INSERT INTO orders VALUES (1500, 'm')",
        "DELETE FROM lowest WHERE id = 3",
        "CREATE TABLE empty (LIKE orders INCLUDING ALL)",
        "ALTER TABLE orders ATTACH PARTITION empty FOR VALUES FROM (2000) TO (3000)",
    )
    for catalog in ("pg_inherits", "pg_attribute"):
        shop.database.execute(f"VACUUM (FULL, FREEZE) {catalog}")
    shop.finish()
    assert_equal(shop)


@pytest.mark.parametrize(
    ("statements", "table", "message"),
    [
        (
            ["CREATE UNLOGGED TABLE more PARTITION OF orders FOR VALUES FROM (1000) TO (2000)"],
            "public.orders",
            "the log does not have their changes: public.more",
        ),
        exhaustive(
            ["CREATE TABLE more PARTITION OF orders FOR VALUES FROM (1000) TO (2000) PARTITION BY RANGE (id)"],
            "public.more",
            "a partition that has partitions itself",
        ),
        exhaustive(
            [f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders, low"],
            "public.low",
            "its changes count as those of the whole table",
        ),
    ],
)
def test_partitions_whose_changes_would_not_be_found_are_refused(
    shop: Shop, statements: list[str], table: str, message: str
) -> None:
    """I6: before anything is made."""
    shop.run_sql(*PARTITIONED, *statements)
    with pytest.raises((UpstreamError, DatabaseRefusedError), match=message):
        shop.create(table=table)
    assert shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
