"""A database whose log is not the one that was landed is refused, and a rebuild starts over with what there is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamReplacedError
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

ORDERS = "CREATE TABLE orders (id int PRIMARY KEY, name text)"


def fill(shop: Shop, first: int, last: int, name: str = "n") -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, '{name}' || i FROM generate_series({first}, {last}) i")


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


def copy(postgres: PostgresServer) -> Path:
    """Copy the stopped server's files, and start it again."""
    backup = postgres.folder.with_name("backup")
    postgres.stop()
    subprocess.run(["/bin/cp", "-a", postgres.folder, backup], check=True)
    postgres.start()
    return backup


def restore(postgres: PostgresServer, backup: Path) -> None:
    """Replace the server's files by a copy."""
    postgres.stop()
    subprocess.run(["/bin/rm", "-r", postgres.folder], check=True)
    subprocess.run(["/bin/mv", backup, postgres.folder], check=True)
    postgres.start()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "written",
    [pytest.param(0, id="behind what was landed"), pytest.param(3_000, id="past what was landed")],
)
def test_a_server_that_was_restored_from_an_older_copy(shop: Shop, postgres: PostgresServer, written: int) -> None:
    """I6: its slot was copied, too, so that nothing else is different."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 3)
    shop.create()
    shop.finish()
    backup = copy(postgres)
    shop.reconnect(postgres)
    fill(shop, 10, 500, "lost")
    shop.finish()
    restore(postgres, backup)
    shop.reconnect(postgres)
    if written:
        fill(shop, 10, written, "new")
    with pytest.raises(UpstreamReplacedError, match="restored from an older copy.* rebuild the job"):
        shop.epoch()
    fill(shop, 5_000, 5_001)
    shop.rebuild_with()
    fill(shop, 5_002, 5_003)
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_server_that_died_before_the_slot_was_saved_returns_the_same_transactions_again(
    shop: Shop, postgres: PostgresServer
) -> None:
    """A crash takes a slot back to the last checkpoint; nothing is landed twice, and nothing is refused."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 3)
    shop.create()
    shop.finish()
    shop.database.execute("CHECKPOINT")
    fill(shop, 4, 6)
    shop.finish()
    fill(shop, 7, 9)
    shop.finish()
    postgres.kill()
    postgres.start()
    shop.reconnect(postgres)
    fill(shop, 10, 12)
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_lost_slot_is_replaced_by_a_rebuild(shop: Shop) -> None:
    shop.run_sql(ORDERS)
    fill(shop, 1, 3)
    shop.create()
    shop.finish()
    with shop.server_setting("max_slot_wal_keep_size", "16MB"):
        shop.write_log(96)
        with pytest.raises(ChangeFeedGapError, match="rebuild|Rebuild"):
            shop.epoch()
    fill(shop, 4, 6)
    shop.rebuild_with()
    fill(shop, 7, 9)
    shop.finish()
    assert_equal(shop)


@pytest.mark.exhaustive
def test_a_shared_slot_that_one_job_makes_again_is_a_gap_for_the_other(shop: Shop) -> None:
    """I6: each job that shares it must be rebuilt, in any order."""
    shop.run_sql(ORDERS)
    fill(shop, 1, 3)
    shared = {"slot": f"shared_{shop.database.info.dbname}", "change_log": str(shop.folder / "shared_log")}
    second = Shop(shop.spark, shop.folder / "second", shop.database)
    shop.create(postgres=shared)
    second.create(postgres=shared, name="second_view")
    shop.finish()
    second.finish()
    shop.database.execute("SELECT pg_drop_replication_slot(%s)", [shared["slot"]])
    fill(shop, 4, 6)
    shop.rebuild_with(postgres=shared)
    fill(shop, 7, 9)
    shop.finish()
    assert_equal(shop)
    with pytest.raises(ChangeFeedGapError, match="slot .* was created again; rebuild the job"):
        second.epoch()
    second.rebuild_with(postgres=shared, name="second_view")
    fill(shop, 10, 12)
    second.finish()
    shop.finish()
    assert_equal(shop)
    assert second.rows("id", "name") == shop.table("SELECT id, name FROM orders")
