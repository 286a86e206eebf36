"""The load on the database: what was read of the table, and how long a transaction was open."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from bench.cdc.orders import DATABASE
from tests.postgres_server import PostgresServer

APPLICATION = "airflow_backfill"
"""The name of this package's sessions."""

_SAMPLE_SECONDS = 0.05

_REPORTED_SECONDS = 2.5
"""A session reports what it read at most once a second, and when it ends."""

_COUNTERS = """
SELECT t.seq_tup_read + coalesce(t.idx_tup_fetch, 0), i.heap_blks_read + i.heap_blks_hit
FROM pg_stat_user_tables t JOIN pg_statio_user_tables i USING (relid) WHERE t.relname = 'orders'
"""

_SIZE = "SELECT count(*), pg_relation_size('orders') / current_setting('block_size')::int FROM orders"

_LONGEST = """
SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::float8 FROM pg_stat_activity
WHERE application_name = %s
"""


@dataclass(frozen=True, slots=True)
class Load:
    """
    What was read of the table.

    :param rows: rows read, from the table or through its index, per row of the table.
    :param pages: pages of the table read, from the cache or not, per page of the table.
    """

    rows: float
    pages: float


def load_of(action: Callable[[], object], connection: psycopg.Connection[Any]) -> Load:
    """Return what an action reads of the table; nobody else may use the table meanwhile."""
    before = _counted(connection)
    action()
    after = _counted(connection)
    # At last, because it reads the table itself, and its session may report that late.
    rows, pages = _row(connection, _SIZE)
    return Load(rows=(after[0] - before[0]) / rows, pages=(after[1] - before[1]) / pages)


@contextmanager
def longest_transaction(server: PostgresServer) -> Iterator[list[float]]:
    """Sample how long this package's oldest transaction has been open, in seconds; the list gets all samples."""
    ages, ended = [0.0], threading.Event()

    def sample() -> None:
        with server.connect(DATABASE) as connection:
            while not ended.wait(_SAMPLE_SECONDS):
                ages.append(_row(connection, _LONGEST, APPLICATION)[0] or 0.0)

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield ages
    finally:
        ended.set()
        sampler.join()


def _counted(connection: psycopg.Connection[Any]) -> tuple[int, int]:
    time.sleep(_REPORTED_SECONDS)
    rows, pages = _row(connection, _COUNTERS)
    return rows, pages


def _row(connection: psycopg.Connection[Any], statement: str, *parameters: object) -> Any:
    row = connection.execute(statement, parameters).fetchone()
    assert row is not None
    return row
