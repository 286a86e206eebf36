"""What a login may do: a plan needs reading, a job a slot and a publication, and each refusal says what to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.errors import BackfillError, ChangeFeedGapError, DatabaseRefusedError
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text, secret text)"
ROWS = "INSERT INTO orders SELECT i, 'n' || i, 's' FROM generate_series(1, 5) i"
ROLE = 'the "reader"'
QUOTED = '"the ""reader"""'
PUBLICATION = "airflow_backfill_orders_view"


@pytest.fixture
def reader(shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop whose job logs in as a role that may only connect."""
    shop.run_sql(ORDERS, ROWS, f"CREATE ROLE {QUOTED} LOGIN PASSWORD 'x'")
    uri = postgres.uri(shop.database.info.dbname, "the%20%22reader%22", "x")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", uri)
    try:
        yield shop
    finally:
        shop.database.execute(f"DROP OWNED BY {QUOTED} CASCADE; DROP ROLE {QUOTED}")


def refusal(shop: Shop, **fields: object) -> str:
    with pytest.raises(BackfillError) as refused:
        shop.create(**fields)
    message = str(refused.value)
    assert "\n" not in message
    assert shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
    assert not shop.exists(f"{shop.backfill.job.state}")
    return message


def run_statements_of(shop: Shop, message: str) -> None:
    """Run what a refusal says, word for word."""
    for part in message.split("; and "):
        shop.run_sql(part.rpartition("run: ")[2])


def test_a_login_that_may_only_read_is_refused_with_each_statement_to_run(reader: Shop) -> None:
    """And nothing is made; once they were run, the job is created."""
    run_statements_of(reader, refusal(reader))
    message = refusal(reader)
    assert message == (
        f"shop_db: public.orders: the login {ROLE} may not create a replication slot; run: ALTER ROLE {QUOTED} "
        f"REPLICATION; and the login {ROLE} may not define the publication; let the table's owner run: CREATE "
        f'PUBLICATION "{PUBLICATION}" FOR TABLE "public"."orders"'
    )
    assert f"shop_db: public.orders: {'; and '.join(reader.backfill.upstream.missing_rights())}" == message
    run_statements_of(reader, message)
    assert reader.backfill.upstream.missing_rights() == []
    reader.create()
    reader.finish()
    reader.assert_truth()


@pytest.mark.exhaustive
def test_columns_that_a_job_does_not_use_need_no_right(reader: Shop) -> None:
    """SELECT on single columns is enough; the one that is missing is named with the statement."""
    reader.run_sql(
        f"GRANT SELECT (id, name) ON orders TO {QUOTED}",
        f"ALTER ROLE {QUOTED} REPLICATION",
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders",
    )
    message = refusal(reader)
    assert message == (
        f"the login {ROLE} may not read column secret of shop_db: public.orders; run: GRANT SELECT "
        f'("secret") ON public.orders TO {QUOTED}'
    )
    reader.create(query="SELECT id, name FROM upstream")
    reader.run_sql("UPDATE orders SET name = 'changed', secret = 'known to nobody' WHERE id = 2")
    reader.finish()
    reader.run_sql("INSERT INTO orders VALUES (7, 'new', 's')")
    assert reader.epoch() is not None
    reader.assert_truth()
    assert reader.rows("id", "name") == reader.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_a_right_that_is_taken_away_is_named_and_not_waited_for(reader: Shop) -> None:
    """I6: the JDBC driver finds it out, and it is no outage."""
    reader.run_sql(
        f"GRANT SELECT ON orders TO {QUOTED}",
        f"ALTER ROLE {QUOTED} REPLICATION",
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders",
    )
    reader.create()
    reader.run_sql(f"REVOKE SELECT ON orders FROM {QUOTED}")
    with pytest.raises(BackfillError, match=r"may not read public\.orders; run: GRANT SELECT ON public\.orders TO"):
        reader.finish()


def test_a_schema_that_may_not_be_entered_is_named(reader: Shop) -> None:
    reader.run_sql("CREATE SCHEMA hidden", "ALTER TABLE orders SET SCHEMA hidden")
    message = refusal(reader, table="hidden.orders")
    assert message.endswith(f'run: GRANT USAGE ON SCHEMA "hidden" TO {QUOTED}')


@pytest.mark.exhaustive
@pytest.mark.parametrize("what", ["FOR TABLES IN SCHEMA public", "FOR TABLES IN SCHEMA public, TABLE public.orders"])
def test_a_publication_of_a_schema_has_its_tables(reader: Shop, what: str) -> None:
    reader.run_sql(
        f"CREATE PUBLICATION {PUBLICATION} {what}",
        f"GRANT SELECT ON orders TO {QUOTED}",
        f"ALTER ROLE {QUOTED} REPLICATION",
    )
    reader.create(rate_limit=3)
    reader.epoch()
    reader.run_sql("CREATE TABLE others (id int)", "UPDATE orders SET name = 'changed' WHERE id = 2")
    reader.finish()
    reader.assert_truth()


@pytest.mark.exhaustive
def test_partitions_of_a_published_schema_are_those_of_their_table(shop: Shop) -> None:
    """I1: PostgreSQL publishes them, in whatever schema they lie."""
    shop.run_sql(
        "CREATE SCHEMA elsewhere",
        "CREATE TABLE orders (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE elsewhere.low PARTITION OF orders FOR VALUES FROM (0) TO (10)",
        "INSERT INTO orders VALUES (1, 'a')",
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLES IN SCHEMA public",
    )
    shop.create()
    shop.finish()
    shop.run_sql("INSERT INTO orders VALUES (2, 'b')", "UPDATE orders SET name = 'c' WHERE id = 1")
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_a_table_that_left_its_published_schema_and_came_back_is_a_gap(shop: Shop) -> None:
    """I6: whoever looks only at both ends sees a published table. Other DDL is none."""
    shop.run_sql(
        ORDERS, ROWS, "CREATE SCHEMA elsewhere", f"CREATE PUBLICATION {PUBLICATION} FOR TABLES IN SCHEMA public"
    )
    shop.create(query="SELECT id, name FROM upstream")
    shop.finish()
    shop.run_sql("ALTER TABLE orders ADD COLUMN more int", "ALTER TABLE orders OWNER TO pg_database_owner")
    shop.run_sql("INSERT INTO orders VALUES (7, 'new', 's')")
    assert shop.epoch() is not None
    shop.run_sql("ALTER TABLE orders SET SCHEMA elsewhere")
    shop.run_sql("UPDATE elsewhere.orders SET name = 'unseen' WHERE id = 2")
    shop.run_sql("ALTER TABLE elsewhere.orders SET SCHEMA public")
    with pytest.raises(ChangeFeedGapError, match="changes while the table was not in publication"):
        shop.epoch()


def test_a_server_that_lacks_a_free_slot_is_refused_before_anything_is_made(shop: Shop) -> None:
    shop.run_sql(ORDERS)
    ((most, used),) = shop.table(
        "SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)"
    )
    for number in range(used, most):
        shop.database.execute("SELECT pg_create_physical_replication_slot(%s)", [f"other_{number}"])
    try:
        with pytest.raises(DatabaseRefusedError, match="all replication slots of the server are in use"):
            shop.create()
    finally:
        shop.database.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_type = 'physical'"
        )
    assert shop.table("SELECT pubname FROM pg_publication") == []
