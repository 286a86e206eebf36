"""
Random writes to a real PostgreSQL, before, during and between epochs: the view is the query after each of them.

At the end it is also what the classical executor of the model gives, which reads the same table meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from tests.integration.postgres.oracle import Oracle
from tests.integration.postgres.shop import Shop
from tests.strategies import Row
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

MOST = 60
QUERY = "SELECT region, id, name, price FROM upstream WHERE price < 900"
DURING = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
)


class DiedError(Exception):
    """An attempt died."""


class Writer:
    """
    Writes to the table, in transactions that may stay open over several epochs.

    :param shop: the database.
    :param seed: decides on everything.
    """

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop = shop
        self.chance = random.Random(seed)
        self._open: psycopg.Connection[tuple[Any, ...]] | None = None

    def write(self, statements: int) -> None:
        """Write one transaction, and now and then begin or end a long one."""
        chance = self.chance
        if self._open is not None and chance.random() < 0.4:
            self._open.commit()
            self._open.close()
            self._open = None
        elif self._open is None and chance.random() < 0.3:
            self._open = self.shop.another_session()
            # Keys that no other transaction touches, so that nobody waits for the long one.
            self._open.execute(self.statement(chance.randrange(1000, 1010)))
            self._open.execute(self.statement(chance.randrange(1000, 1010)))
        self.shop.run_sql(*(self.statement(chance.randrange(MOST)) for _ in range(statements)))

    def statement(self, number: int) -> str:
        chance, (region, id_) = self.chance, self.key(number)
        price, name = chance.randrange(1000), chance.choice(["a", "b' \\ \"", "", "ü", "x" * 3000])
        values = f"('{region}', {id_}, '{name.replace(chr(39), chr(39) * 2)}', {price})"
        one = f"region = '{region}' AND id = {id_}"
        kind = chance.random()
        if kind < 0.4:
            return (
                f"INSERT INTO orders VALUES {values} ON CONFLICT (region, id) DO UPDATE SET price = excluded.price, "
                "name = excluded.name"
            )
        if kind < 0.6:
            return f"UPDATE orders SET price = {price} WHERE {one}"
        if kind < 0.75:
            new_region, new_id = self.key(number if number >= 1000 else chance.randrange(MOST))
            return (
                f"UPDATE orders SET region = '{new_region}', id = {new_id} WHERE {one} AND NOT EXISTS "
                f"(SELECT FROM orders WHERE region = '{new_region}' AND id = {new_id})"
            )
        return f"DELETE FROM orders WHERE {one}"

    @staticmethod
    def key(number: int) -> tuple[str, int]:
        return "EeéZ-"[number % 5], number // 5 - 4

    def end(self) -> None:
        """End the long transaction; a slot is not created while one is in progress."""
        if self._open is not None:
            self._open.commit()
            self._open.close()
            self._open = None


@contextmanager
def writing_during(writer: Writer, oracle: Oracle) -> Iterator[None]:
    """Write at named points of epochs, and die at some of them."""

    def write(point: CrashPoint) -> None:
        if point in DURING and writer.chance.random() < 0.5:
            writer.write(2)
            oracle.go_on()
        if writer.chance.random() < 0.06:
            raise DiedError

    crash_points.install(write)
    try:
        yield
    finally:
        crash_points.install(None)


def expected(shop: Shop, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the view's rows as the committed position has them, of the table's rows as of the pinned offset."""
    settings, progress = shop.backfill.settings(), shop.backfill.store.state().vnodes[0]
    if isinstance(progress, InProgress):
        order = settings.key_order
        rows = [row for row in rows if order.compare((row[0], row[1]), progress.position) <= 0]
    elif not isinstance(progress, Completed):
        rows = []
    return [row for row in rows if row[3] is not None and row[3] < 900]


def cheap(row: Row) -> tuple[Any, ...] | None:
    """Return what the job's query makes of a row."""
    return (row.status, row.amount) if row.amount is not None and row.amount < 900 else None


@pytest.mark.parametrize("seed", [1, *(exhaustive(seed) for seed in range(2, 6))])
def test_random_histories(shop: Shop, seed: int) -> None:
    """I1, I2 and I4: after each epoch, whatever is written and whatever dies; at the end the oracle agrees."""
    shop.run_sql(
        "CREATE TABLE orders (region text, id int, name text, price numeric(8, 2), PRIMARY KEY (region, id))",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    writer = Writer(shop, seed)
    for _ in range(12):
        writer.write(4)
    writer.end()
    shop.create(key=["region", "id"], query=QUERY, rate_limit=writer.chance.choice([7, 20, None]))
    oracle = Oracle(shop, cheap, seed)
    seen: dict[int, list[tuple[Any, ...]]] = {}
    finished = 0
    for _ in range(40):
        writer.write(3)
        oracle.go_on()
        with writing_during(writer, oracle):
            barrier = None
            while True:
                try:
                    if barrier is None:
                        before = shop.table("SELECT region, id, name, price FROM orders")
                        barrier = shop.inject()
                        if barrier is None:
                            break
                        seen.setdefault(barrier.epoch, before)
                    shop.run(barrier)
                    break
                except DiedError:
                    # What it pinned, if anything, is what the next request gets; it was written to since.
                    barrier = None
                    seen.setdefault(shop.backfill.store.last_epoch(), before)
        if barrier is not None:
            assert shop.rows("region", "id", "name", "price") == expected(shop, seen[barrier.epoch])
        finished += shop.backfill.store.state().completed
        if finished > 2:
            break
    assert finished > 2
    writer.end()
    shop.finish()
    assert shop.rows("region", "id", "name", "price") == [
        row for row in shop.table("SELECT region, id, name, price FROM orders") if row[3] < 900
    ]
    shop.assert_truth()
    assert shop.rows("region", "id", "name", "price") == oracle.finished()
