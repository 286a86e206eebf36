"""What lands is what the slot returns up to the window's end, whatever the server has in memory."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark

PATIENCE_SECONDS = 5


@contextmanager
def nothing_flushed_in_the_background(shop: Shop) -> Iterator[None]:
    """
    Stop the server's processes that bring the log to the disk for others.

    If the end of what is on disk lies within a record, the slot waits for the rest of it. So they go on after a while.
    """
    found = shop.table(
        "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer')"
    )

    def all_get(sent: signal.Signals) -> None:
        for (pid,) in found:
            os.kill(pid, sent)

    all_get(signal.SIGSTOP)
    patience = threading.Timer(PATIENCE_SECONDS, all_get, (signal.SIGCONT,))
    patience.start()
    try:
        yield
    finally:
        patience.cancel()
        all_get(signal.SIGCONT)


def is_written_and_not_on_disk(shop: Shop, row: str) -> bool:
    """Insert a row, and return whether its commit left the server's memory, but is not on disk for sure."""
    shop.run_sql(f"INSERT INTO orders VALUES {row}")
    ((commit,),) = shop.table("SELECT pg_current_wal_insert_lsn()::text")
    shop.database.execute("SELECT pg_logical_emit_message(false, 'large', repeat('x', 8000000))")
    return shop.table(f"SELECT pg_current_wal_lsn() > '{commit}', pg_current_wal_flush_lsn() >= '{commit}'") == [
        (True, False)
    ]


@pytest.mark.exhaustive
def test_a_commit_that_is_written_and_not_on_disk_is_landed_later(shop: Shop) -> None:
    """I1: a large transaction pushes it out of memory, but the slot returns only what is on disk."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)", "INSERT INTO orders VALUES (1, 'one')")
    shop.create()
    shop.finish()
    with nothing_flushed_in_the_background(shop):
        shop.run_sql("INSERT INTO orders VALUES (2, 'on disk')")
        shop.database.execute("SET synchronous_commit = off")
        # Other processes of the server may flush now and then.
        assert any(is_written_and_not_on_disk(shop, f"({id_}, 'in memory')") for id_ in range(10, 40))
        shop.backfill.upstream.refresh()
        shop.database.execute("RESET synchronous_commit")
    shop.run_sql("INSERT INTO orders VALUES (4, 'later')")
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
