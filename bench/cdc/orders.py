"""The table: orders in a PostgreSQL server of the benchmark's own, and a process that writes to them."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from tests.postgres_server import PostgresServer, postgres_server

DATABASE = "shop"
TABLE = "public.orders"
KEY = "order_id"

SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.int64()),
        pa.field("customer_id", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("amount", pa.decimal128(12, 2)),
        pa.field("weight", pa.float64()),
        pa.field("is_gift", pa.bool_()),
        pa.field("due_on", pa.date32()),
        pa.field("placed_at", pa.timestamp("us")),
        pa.field("changed_at", pa.timestamp("us", "UTC")),
        pa.field("note", pa.string()),
    ]
)

# Room on each page for new versions of its rows, as for any table that is mostly updated. Without it, updated rows lie
# at the table's end, and a scan in key order reads pages twice.
_CREATE = """
CREATE TABLE orders (
    order_id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12, 2), weight float8, is_gift boolean,
    due_on date, placed_at timestamp, changed_at timestamptz, note text
) WITH (fillfactor = 90)
"""

_FILL = """
INSERT INTO orders
SELECT i, hashint8(i) & 65535, (ARRAY['paid', 'open', 'shipped'])[1 + i %% 3], (hashint8(i) %% 10000000) / 100.0,
       sqrt(i), i %% 7 = 0, date '2026-01-01' + (i %% 365)::int, timestamp '2026-01-01' + i * interval '1.000001 s',
       timestamptz '2026-01-01' + i * interval '1.5 s', md5(i::text)
FROM generate_series(1, %s::bigint) i
"""

_SETTINGS = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "512MB", "max_wal_size": "4GB"}
"""As a server is run, unlike those of the tests."""


@contextmanager
def server_with_orders(rows: int) -> Iterator[PostgresServer]:
    """Start a server, and fill the table."""
    # The server refuses to run as root, and its user must be able to enter the folder.
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-postgres-"))
    folder.chmod(0o755)
    try:
        with postgres_server(folder / "data", _SETTINGS) as server:
            server.create_database(DATABASE)
            with server.connect(DATABASE) as connection:
                connection.execute(_CREATE)
                connection.execute(_FILL, [rows])
                connection.execute("VACUUM (ANALYZE, FREEZE) orders")
                connection.execute("CHECKPOINT")
            yield server
    finally:
        shutil.rmtree(folder)


@contextmanager
def writing(server: PostgresServer, per_second: float) -> Iterator[None]:
    """Write to the table at a fixed rate, from a process of its own, as pgbench does."""
    spawn = multiprocessing.get_context("spawn")
    begun, ended = spawn.Event(), spawn.Event()
    writer = spawn.Process(target=_write, args=(server.uri(DATABASE), per_second, begun, ended), daemon=True)
    writer.start()
    try:
        if not begun.wait(60):
            raise RuntimeError("the writer did not begin")
        yield
    finally:
        ended.set()
        writer.join(60)
    if writer.exitcode:
        raise RuntimeError("the writer failed")


def _write(uri: str, per_second: float, begun: Event, ended: Event) -> None:
    """Update a random order in each transaction; insert and delete one in every tenth."""
    chance = random.Random(time.time_ns())
    with psycopg.connect(uri, autocommit=True, application_name="writer") as connection:
        newest = _one(connection, "SELECT max(order_id) FROM orders")
        begun.set()
        started, number = time.monotonic(), 0
        while not ended.wait(max(started + number / per_second - time.monotonic(), 0)):
            number += 1
            with connection.transaction():
                connection.execute(
                    "UPDATE orders SET amount = amount + 1, changed_at = now() WHERE order_id = %s",
                    [chance.randint(1, newest)],
                )
                if number % 10 == 0:
                    newest += 1
                    connection.execute("DELETE FROM orders WHERE order_id = %s", [chance.randint(1, newest)])
                    connection.execute(
                        "INSERT INTO orders SELECT %s, 1, 'open', 10.5, 0.1, true, current_date, now(), now(), 'new'",
                        [newest],
                    )


def _one(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> Any:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]
