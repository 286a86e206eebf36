"""What lands is what the slot returns up to the window's end, whatever the server has in memory."""

from __future__ import annotations

import pytest

from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark


def test_a_commit_that_is_written_and_not_on_disk_is_landed_later(shop: Shop) -> None:
    """I1: a large transaction pushes it out of memory, but the slot returns only what is on disk."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)", "INSERT INTO orders VALUES (1, 'one')")
    shop.create()
    shop.finish()
    shop.database.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
    shop.database.execute("ALTER SYSTEM SET wal_writer_flush_after = '1GB'")
    shop.database.execute("SELECT pg_reload_conf()")
    try:
        shop.database.execute("SET synchronous_commit = off")
        written = "SELECT pg_current_wal_lsn() > %s::pg_lsn AND pg_current_wal_flush_lsn() < %s::pg_lsn"
        for number in range(2, 30):
            shop.run_sql(f"INSERT INTO orders VALUES ({number}, 'late')")
            commit = shop.table("SELECT pg_current_wal_insert_lsn()::text")[0][0]
            shop.database.execute("SELECT pg_logical_emit_message(false, 'x', repeat('x', 4000000))")
            if shop.database.execute(written, [commit, commit]).fetchall()[0][0]:
                break
        else:
            raise AssertionError("the server brings each commit to the disk at once")
        shop.backfill.upstream.refresh()
        shop.run_sql("INSERT INTO orders VALUES (100, 'last')")
    finally:
        for name in ("wal_writer_delay", "wal_writer_flush_after"):
            shop.database.execute(f"ALTER SYSTEM RESET {name}")
        shop.database.execute("SELECT pg_reload_conf()")
        shop.database.execute("RESET synchronous_commit")
    shop.run_sql("INSERT INTO orders VALUES (101, 'on disk')")
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
