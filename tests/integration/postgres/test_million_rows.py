"""A million rows become a view while a process writes to their table."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event

import psycopg
import pyarrow as pa
import pyarrow.csv
import pytest

from tests.integration.postgres.shop import Shop

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

ROWS = 1_000_000
RATE_LIMIT = 250_000
BETWEEN_TRANSACTIONS = 0.005
"""How many seconds the writer waits; without, it takes all of a small machine, and epochs take longer and longer."""

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(10, 2))])


def write(conninfo: str, stop: Event, written: Synchronized[int]) -> None:
    """Write one small transaction after the other, all over the table."""
    chance = random.Random(1)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        while not stop.wait(BETWEEN_TRANSACTIONS):
            changed, gone, moved = ([chance.randrange(ROWS) for _ in range(count)] for count in (20, 3, 3))
            new = ROWS + chance.randrange(ROWS)
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute("UPDATE orders SET price = price + 1 WHERE id = ANY(%s)", [changed])
                cursor.execute("DELETE FROM orders WHERE id = ANY(%s)", [gone])
                # A row that came back may have moved before.
                cursor.execute(
                    "UPDATE orders SET id = -id, name = name || '-' WHERE id = ANY(%s) AND id > 0 "
                    "AND NOT EXISTS (SELECT FROM orders AS taken WHERE taken.id = -orders.id)",
                    [moved],
                )
                cursor.execute(
                    "INSERT INTO orders VALUES (%s, 'new', 1), (%s, 'back', 2) "
                    "ON CONFLICT (id) DO UPDATE SET price = orders.price + 1",
                    [new, gone[0]],
                )
            written.value += 1


@contextmanager
def writer(shop: Shop) -> Iterator[Synchronized[int]]:
    """Let another process write; give the number of its transactions."""
    context = get_context("spawn")
    stop, written = context.Event(), context.Value("q", 0)
    info = shop.database.info
    conninfo = psycopg.conninfo.make_conninfo(info.dsn, password=info.password)
    process = context.Process(target=write, args=(conninfo, stop, written), daemon=True)
    process.start()
    try:
        yield written
    finally:
        stop.set()
        process.join()
    assert process.exitcode == 0


def table_of(shop: Shop) -> pa.Table:
    """Return the table in the order of its key."""
    file = io.BytesIO()
    query = "COPY (SELECT id, name, price FROM orders ORDER BY id) TO STDOUT (FORMAT csv)"
    with shop.database.cursor() as cursor, cursor.copy(query) as copied:
        for block in copied:
            file.write(block)
    file.seek(0)
    names, types = COLUMNS.names, {field.name: field.type for field in COLUMNS}
    return pyarrow.csv.read_csv(
        file,
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types),
    )


def test_a_million_rows_under_writes(shop: Shop) -> None:
    """I1: over several epochs, compared row by row at the end."""
    shop.run_sql(
        "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10, 2))",
        f"INSERT INTO orders SELECT i, 'n' || i, i % 100000 FROM generate_series(0, {ROWS - 1}) i",
    )
    shop.database.execute("ANALYZE orders")
    shop.create(rate_limit=RATE_LIMIT)
    with writer(shop) as written:
        counts = [written.value]
        while not shop.backfill.store.state().completed:
            assert shop.epoch() is not None
            counts.append(written.value)
        shop.epoch()
    assert all(before < after for before, after in pairwise(counts)), "the writer rested"
    assert len(counts) > ROWS / RATE_LIMIT
    shop.finish()
    view = shop.view().select(*COLUMNS.names).orderBy("id").toArrow().cast(COLUMNS)
    assert view.equals(table_of(shop))
