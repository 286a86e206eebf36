"""What a database does to a table besides single changes: TRUNCATE, DDL, partitions, shared slots, lost slots."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    DatabaseRefusedError,
    InvalidJobError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.jobs import mutations, strategy_tables
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text, price numeric(10, 2))"


def fill(shop: Shop, first: int, last: int) -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, 'n' || i, i FROM generate_series({first}, {last}) i")


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name", "price") == shop.table("SELECT id, name, price FROM orders")


@pytest.mark.exhaustive
def test_truncate_removes_all_rows_whenever_it_comes(shop: Shop) -> None:
    """Of rows in the view, of rows that were read ahead, and of the same keys again in one transaction."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 30)
    shop.create(rate_limit=10)
    shop.epoch()
    shop.epoch()
    shop.run_sql(
        "TRUNCATE orders",
        "INSERT INTO orders VALUES (1, 'again', 1), (15, 'too', 2), (2, 'x', 3)",
        "DELETE FROM orders WHERE id = 2",
    )
    shop.epoch()
    assert [row for row in shop.rows("id", "name") if row[0] <= 10] == [(1, "again")]
    shop.finish()
    assert_equal(shop)
    shop.run_sql("TRUNCATE orders")
    assert shop.epoch() is not None
    assert shop.rows("id") == []


@pytest.mark.exhaustive
def test_ddl_that_changes_no_used_column_changes_nothing(shop: Shop) -> None:
    shop.run_sql("CREATE TYPE mood AS ENUM ('sad')", ORDERS, "ALTER TABLE orders ADD mood mood, ADD gone int")
    fill(shop, 1, 5)
    shop.create(query="SELECT id, name, price, mood FROM upstream")
    shop.finish()
    shop.run_sql("ALTER TABLE orders DROP gone, ADD more text DEFAULT 'x', ALTER price TYPE numeric(10, 2)")
    shop.database.execute("ALTER TYPE mood ADD VALUE 'ok'")
    shop.run_sql("INSERT INTO orders VALUES (6, 'n6', 6, 'ok')", "UPDATE orders SET more = 'y' WHERE id = 1")
    assert shop.epoch() is not None
    assert shop.rows("id", "mood") == shop.table("SELECT id, mood FROM orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("ALTER TABLE orders DROP name", "column name is gone"),
        ("ALTER TABLE orders RENAME name TO title", "column name is gone"),
        ("ALTER TABLE orders ALTER price TYPE numeric(12, 2)", r"column price was decimal\(10,2\) and is decimal"),
    ],
)
def test_ddl_that_changes_a_used_column_is_refused(shop: Shop, statement: str, problem: str) -> None:
    """I6."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.run_sql(statement)
    with pytest.raises(UpstreamSchemaChangedError, match=problem):
        shop.epoch()


@pytest.mark.exhaustive
def test_a_column_that_had_another_type_within_a_window_is_refused(shop: Shop) -> None:
    """I6: comparing both ends of the window is not enough."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.run_sql("ALTER TABLE orders ALTER price TYPE text", "INSERT INTO orders VALUES (6, 'n', 'much')")
    shop.run_sql(
        "DELETE FROM orders WHERE id = 6", "ALTER TABLE orders ALTER price TYPE numeric(10, 2) USING price::numeric"
    )
    with pytest.raises(UpstreamSchemaChangedError, match="column price was decimal.* and became string"):
        shop.epoch()


@pytest.mark.exhaustive
def test_a_table_that_was_dropped_and_created_again_is_another_one(shop: Shop) -> None:
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.run_sql("DROP TABLE orders", ORDERS)
    with pytest.raises(UpstreamReplacedError, match="rebuild the job"):
        shop.epoch()


@pytest.mark.exhaustive
def test_a_slot_that_is_gone_is_a_gap(shop: Shop) -> None:
    """I6: dropped by hand, or lost in a failover."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    shop.database.execute("SELECT pg_drop_replication_slot('airflow_backfill_orders_view')")
    fill(shop, 6, 7)
    with pytest.raises(ChangeFeedGapError, match="slot airflow_backfill_orders_view is gone.* rebuild"):
        shop.epoch()
    shop.rebuild_with()
    shop.finish()
    assert_equal(shop)


def test_changes_that_something_else_consumed_are_a_gap(shop: Shop) -> None:
    """I6."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    fill(shop, 6, 7)
    shop.database.execute(
        "SELECT count(*) FROM pg_logical_slot_get_binary_changes('airflow_backfill_orders_view', NULL, NULL, "
        "'proto_version', '1', 'publication_names', 'airflow_backfill_orders_view')"
    )
    with pytest.raises(ChangeFeedGapError, match="something else consumed changes"):
        shop.epoch()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER PUBLICATION airflow_backfill_orders_view DROP TABLE orders"],
        ["DROP PUBLICATION airflow_backfill_orders_view"],
        [
            "DROP PUBLICATION airflow_backfill_orders_view",
            "INSERT INTO orders VALUES (20, 'n', 1)",
            "CREATE PUBLICATION airflow_backfill_orders_view FOR TABLE orders",
        ],
    ],
)
def test_a_table_that_is_no_longer_published_is_a_gap(shop: Shop, statements: list[str]) -> None:
    """I6."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.finish()
    for statement in statements:
        shop.run_sql(statement)
    fill(shop, 6, 7)
    with pytest.raises(ChangeFeedGapError, match="publication airflow_backfill_orders_view .* rebuild the job"):
        shop.epoch()
    shop.rebuild_with()
    fill(shop, 8, 9)
    shop.finish()
    assert_equal(shop)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        exhaustive(["CREATE TABLE more () INHERITS (orders)"], "inherit from it"),
        (
            ["CREATE PUBLICATION airflow_backfill_orders_view FOR TABLE orders WHERE (id > 3)"],
            "only some rows or columns of public.orders; run: ALTER PUBLICATION",
        ),
        exhaustive(
            ["CREATE PUBLICATION airflow_backfill_orders_view FOR TABLE orders (id, name)"], "only some rows or columns"
        ),
    ],
)
def test_a_table_whose_log_does_not_have_all_of_its_rows_is_refused(
    shop: Shop, statements: list[str], message: str
) -> None:
    """I6."""
    shop.run_sql(ORDERS, *statements)
    with pytest.raises((UpstreamError, DatabaseRefusedError), match=message):
        shop.create()


def test_rows_that_row_security_hides_are_refused(
    shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: the log has them."""
    name, login = shop.database.info.dbname, f"reader_{shop.database.info.dbname}"
    shop.run_sql(
        ORDERS, f"CREATE ROLE {login} LOGIN REPLICATION PASSWORD 'secret'", f"GRANT SELECT ON orders TO {login}"
    )
    shop.run_sql("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name, login, "secret"))
    with pytest.raises(UpstreamError, match=f"row security hides rows .* ALTER ROLE .{login}. BYPASSRLS"):
        shop.create()


@pytest.mark.exhaustive
def test_cancelling_drops_the_slot_and_a_rebuild_makes_it_again(shop: Shop) -> None:
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    shop.create()
    shop.epoch()
    mutations.cancel_job(store=shop.backfill.store, requested_by="tester")
    strategy_tables.clean_up_after_cancelling(shop.backfill.store)
    slots = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    assert shop.table(slots) == []
    assert shop.table("SELECT pubname FROM pg_publication") == []
    fill(shop, 6, 7)
    shop.rebuild_with()
    shop.finish()
    assert_equal(shop)


PARTITIONED = (
    "CREATE TABLE orders (id int PRIMARY KEY, name text, price numeric(10, 2)) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (10) TO (1000)",
)


@pytest.mark.exhaustive
def test_a_partitioned_table_is_one_table(shop: Shop) -> None:
    """Its partitions' changes are its own, also of those that are made later, and of rows that move between them."""
    shop.run_sql(*PARTITIONED)
    fill(shop, 1, 20)
    shop.create(rate_limit=8)
    shop.epoch()
    shop.run_sql("UPDATE orders SET id = 500 WHERE id = 3", "UPDATE high SET price = 0 WHERE id = 12")
    shop.run_sql("CREATE TABLE more PARTITION OF orders FOR VALUES FROM (1000) TO (2000)")
    shop.run_sql("INSERT INTO orders VALUES (1500, 'm', 1)", "UPDATE orders SET id = 1600 WHERE id = 4")
    shop.finish()
    assert_equal(shop)
    shop.run_sql("DELETE FROM high WHERE id = 13", "TRUNCATE orders", "INSERT INTO orders VALUES (4, 'l', 4)")
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (["TRUNCATE low"], "TRUNCATE of public.low, and not of the whole table"),
        (["ALTER TABLE orders DETACH PARTITION low"], "DETACH or DROP of partition public.low"),
        (["DROP TABLE low"], "DETACH or DROP of partition public.low"),
        (
            [
                "CREATE TABLE more (LIKE orders)",
                "INSERT INTO more VALUES (1500, 'm', 1)",
                "ALTER TABLE orders ATTACH PARTITION more FOR VALUES FROM (1000) TO (2000)",
            ],
            "ATTACH of partition public.more",
        ),
    ],
)
def test_rows_that_come_or_go_with_a_partition_are_a_gap(shop: Shop, statements: list[str], what: str) -> None:
    """I6: the database does not log these rows."""
    shop.run_sql(*PARTITIONED)
    fill(shop, 1, 20)
    shop.create(rate_limit=8)
    shop.epoch()
    for statement in statements:
        shop.run_sql(statement)
    with pytest.raises(ChangeFeedGapError, match=f"{what}.*rebuild the job"):
        shop.epoch()
    shop.rebuild_with()
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_partition_with_another_replica_identity_than_its_table(shop: Shop) -> None:
    """I6: the log identifies rows as their partition does; setting it for the table sets it for no partition."""
    shop.run_sql(
        "CREATE TABLE orders (id int PRIMARY KEY, code int NOT NULL, UNIQUE (id, code)) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, i FROM generate_series(1, 3) i",
    )
    with pytest.raises(UpstreamError, match="identifies changed rows by id, not by id, code; run: ALTER TABLE"):
        shop.create(key=["id", "code"])
    shop.run_sql("ALTER TABLE low REPLICA IDENTITY FULL")
    shop.create(key=["id", "code"])
    shop.finish()
    shop.run_sql("UPDATE orders SET code = 9 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    assert shop.epoch() is not None
    assert shop.rows("id", "code") == shop.table("SELECT id, code FROM orders")


@pytest.mark.exhaustive
def test_two_jobs_share_a_slot_and_land_changes_once(shop: Shop) -> None:
    shop.run_sql(ORDERS, "CREATE TABLE customers (id int PRIMARY KEY, name text)")
    fill(shop, 1, 5)
    shared = {"slot": "shared", "change_log": str(shop.folder / "shared_log")}
    second = Shop(shop.spark, shop.folder / "second", shop.database)
    shop.create(postgres=shared)
    shop.finish()
    fill(shop, 6, 7)
    shop.run_sql("INSERT INTO customers VALUES (1, 'one')")
    second.create(postgres=shared, table="public.customers", name="customers_view")
    shop.run_sql("INSERT INTO customers VALUES (2, 'two')", "UPDATE orders SET price = 0 WHERE id = 1")
    second.finish()
    shop.finish()
    assert_equal(shop)
    assert second.rows("id", "name") == shop.table("SELECT id, name FROM customers")
    mutations.cancel_job(store=second.backfill.store, requested_by="tester")
    strategy_tables.clean_up_after_cancelling(second.backfill.store)
    fill(shop, 8, 9)
    shop.finish()
    assert_equal(shop)


@pytest.mark.parametrize(
    ("table", "key", "error", "message"),
    [
        ("id int, name text", ["id"], InvalidJobError, "no unique index over id"),
        exhaustive("id int UNIQUE, name text", ["id"], InvalidJobError, "column id may be null"),
        ("id int PRIMARY KEY, code int NOT NULL UNIQUE", ["code"], UpstreamError, "REPLICA IDENTITY"),
        exhaustive("id real PRIMARY KEY", ["id"], InvalidJobError, "column 'id' has type float4"),
        exhaustive("id char(3) PRIMARY KEY", ["id"], InvalidJobError, "column 'id' has type bpchar"),
    ],
)
def test_a_key_that_does_not_identify_rows_is_refused(
    shop: Shop, table: str, key: list[str], error: type[Exception], message: str
) -> None:
    """I6: before anything is made."""
    shop.run_sql(f"CREATE TABLE orders ({table})")
    with pytest.raises(error, match=message):
        shop.create(key=key)
    assert shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []


@pytest.mark.exhaustive
def test_texts_are_read_in_the_order_of_their_bytes_whatever_the_collation(shop: Shop) -> None:
    """I1: the order of the scan is the order of positions."""
    shop.run_sql('CREATE TABLE orders (id text COLLATE "en-x-icu" PRIMARY KEY, name text, price numeric(10, 2))')
    keys = ["a", "B", "b", "A", "é", "z", "Z", "", " ", "aa", "ä", "\U0001f600", "~", "_", "0"]
    shop.run_sql(*(f"INSERT INTO orders VALUES ('{key}', 'n', 1)" for key in keys))
    shop.create(rate_limit=4)
    shop.epoch()
    for number in range(3):
        shop.run_sql(f"UPDATE orders SET price = price + 1 WHERE id IN ('a', 'Z', 'é', '{keys[number]}')")
        shop.epoch()
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_login_with_few_rights_is_enough(
    shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docs/how-to/backfill-from-postgresql.md grants them."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 5)
    name, login = shop.database.info.dbname, f"backfill_{shop.database.info.dbname}"
    shop.run_sql(f"CREATE ROLE {login} LOGIN REPLICATION PASSWORD 'secret'")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name, login, "secret"))
    with pytest.raises(UpstreamNotFoundError, match=f"GRANT SELECT ON public.orders TO .{login}"):
        shop.create()
    shop.run_sql(f"GRANT SELECT ON orders TO {login}")
    with pytest.raises(DatabaseRefusedError, match="let the table.s owner run: CREATE PUBLICATION .* FOR TABLE"):
        shop.create()
    shop.run_sql("CREATE PUBLICATION airflow_backfill_orders_view FOR TABLE orders")
    shop.create()
    shop.epoch()
    fill(shop, 6, 7)
    shop.finish()
    assert_equal(shop)
    shop.assert_truth()
    mutations.cancel_job(store=shop.backfill.store, requested_by="tester")
    strategy_tables.clean_up_after_cancelling(shop.backfill.store)
    assert shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
