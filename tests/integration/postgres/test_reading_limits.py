"""What is read ahead, and what a chunk appends of it, keeps to the rate limit, whatever happened before."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.strategies.cdc.files import ReadAheadFiles
from airflow_backfill_provider.strategies.cdc.location import table_of
from tests.integration.postgres import test_debezium
from tests.integration.postgres.shop import Shop
from tests.integration.postgres.test_debezium import COLUMNS, EventShop
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive

events = test_debezium.events

pytestmark = pytest.mark.spark


def fill(shop: Shop, first: int, last: int, letter: str = "a") -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, '{letter}' || i FROM generate_series({first}, {last}) i")


def rows_of_readings(shop: Shop) -> list[int]:
    """Return the rows of each reading that counts, in key order."""
    settings = shop.backfill.settings()
    files, order = ReadAheadFiles(table_of(settings)), settings.scan.order
    return [sum(file.row_count for file in files.statistics(order, [reading])[0]) for reading in files.readings(order)]


def epoch_with_a_dead_server(shop: Shop, postgres: PostgresServer) -> None:
    """Run an epoch whose reading cannot be ended, because the server has died meanwhile."""

    def kill(reached: CrashPoint) -> None:
        if reached is CrashPoint.AFTER_READ_AHEAD_COMMIT:
            crash_points.install(None)
            postgres.kill()
            postgres.start()

    crash_points.install(kill)
    try:
        shop.epoch()
    finally:
        crash_points.install(None)
        shop.reconnect(postgres)


@pytest.mark.exhaustive
@pytest.mark.parametrize("deaths", [2, exhaustive(5)])
def test_after_the_server_died_chunks_are_as_large_as_before(shop: Shop, postgres: PostgresServer, deaths: int) -> None:
    """I4: each death leaves rows in the table that do not count."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 60)
    shop.create(rate_limit=20)
    for _ in range(deaths):
        epoch_with_a_dead_server(shop, postgres)
    chunks = [commit.snapshot_read_row_count for commit in shop.finish()]
    assert [rows for rows in chunks if rows] == [20, 20, 20]
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["id", exhaustive("name"), exhaustive("name, id")])
def test_no_reading_exceeds_the_rate_limit_where_the_sample_has_no_keys(shop: Shop, key: str) -> None:
    """I4: all keys that came after the sample was taken lie beyond its last one."""
    shop.run_sql(f"CREATE TABLE orders (id int, name text, PRIMARY KEY ({key}))")
    fill(shop, 1, 40)
    shop.create(rate_limit=30, key=key.split(", "))
    shop.epoch()
    fill(shop, 100, 199, "b")
    shop.database.execute("ANALYZE orders")
    shop.finish()
    assert rows_of_readings(shop) == [30, 30, 30, 30, 20]
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_the_backfill_ends_although_rows_come_faster_than_the_rate_limit(shop: Shop) -> None:
    """I4: what is left after the sample's last key is counted, and the limit is raised when it does not get less."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 20)
    shop.create(rate_limit=10)
    for number in range(40):
        first = 100 + 15 * number
        fill(shop, first, first + 14)
        commit = shop.epoch()
        if commit is not None and commit.completed:
            break
    assert shop.backfill.store.state().completed
    assert max(barrier.rate_limit or 0 for barrier in shop.barriers()) > 10
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_every_reading_that_waits_is_taken_back_by_a_crash(events: EventShop, postgres: PostgresServer) -> None:
    """I4: nothing records that a reading over events was ended, so a crash takes all of them back, and not one."""
    events.begin(fill=60)
    events.create(rate_limit=40)
    events.epoch()
    mutations.throttle_job(30, store=events.backfill.store, requested_by="tester")
    events.epoch()
    assert rows_of_readings(events) == [40, 20]
    postgres.kill()
    postgres.start()
    events.reconnect(postgres)
    events.finish()
    assert events.backfill.store.state().completed
    assert events.rows(*COLUMNS.names) == events.truth()
