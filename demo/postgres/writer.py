"""
Keep an orders table in PostgreSQL changing: ``python -m demo.postgres.writer``.

Like pgbench, it begins transactions at random moments, so many a second on average. Most change one order; some change
many, and some do several operations one after another, perhaps on the same order. libpq's environment variables
(``PGHOST``, ``PGUSER``, ``PGPASSWORD``, …) name the database, so that no password is on a command line.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
from psycopg import sql

from airflow_backfill_provider.sources.shared.postgresql.lsn import parse_lsn
from demo.orders_writer import OrdersWriter, Span, Widths, write_until_stopped

RATE = 20.0

ONE = Widths(inserted=1, updated=3, deleted=3, rekeyed=3)
"""Ids are three apart, so three of them are at most one order."""

MANY = Widths(inserted=30, updated=90, deleted=30, rekeyed=30)

_OFTEN_MANY = 0.15
_OFTEN_SEVERAL = 0.2
_MOST_OPERATIONS = 4

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresWriter(OrdersWriter):
    """
    Writes one transaction at a time.

    :param connection: a session of the table's owner, in autocommit mode.
    :param seed: the same seed makes the same choices.
    """

    def __init__(self, connection: Connection, seed: int) -> None:
        self._connection = connection
        newest = connection.execute("SELECT region, max(order_id) FROM public.orders GROUP BY region").fetchall()
        super().__init__(np.random.default_rng(seed), dict(newest))

    def commit(self) -> None:
        """Write one operation, or several, as one transaction."""
        several = self._random.random() < _OFTEN_SEVERAL
        with self._connection.transaction():
            for _ in range(int(self._random.integers(2, _MOST_OPERATIONS + 1)) if several else 1):
                self.operate(MANY if self._random.random() < _OFTEN_MANY else ONE)
        ((position,),) = self._connection.execute("SELECT pg_current_wal_lsn()::text").fetchall()
        self.report.commits += 1
        self.report.now_at = f"position {parse_lsn(position)}"

    def append(self, orders: pa.Table) -> None:
        """Insert orders."""
        names = sql.SQL(", ").join(map(sql.Identifier, orders.column_names))
        values = sql.SQL(", ").join(sql.Placeholder() * orders.num_columns)
        self._connection.cursor().executemany(
            sql.SQL("INSERT INTO public.orders ({}) VALUES ({})").format(names, values),
            [tuple(order.values()) for order in orders.to_pylist()],
        )

    def change(self, orders: Span, changes: Mapping[str, str]) -> int:
        """Update orders."""
        assignments = ", ".join(f"{column} = {expression}" for column, expression in changes.items())
        return self._connection.execute(
            f"UPDATE public.orders SET {assignments}, updated_at = clock_timestamp() WHERE {orders.sql}".encode()
        ).rowcount

    def remove(self, orders: Span) -> list[int]:
        """Delete orders."""
        found = self._connection.execute(
            f"DELETE FROM public.orders WHERE {orders.sql} RETURNING order_id".encode()
        ).fetchall()
        return [order_id for (order_id,) in found]


class Schedule:
    """
    Random moments, at a rate on average. Who is late catches up.

    :param rate: how many moments a second.
    :param random: chooses them.
    :param clock: returns the present moment in seconds.
    """

    def __init__(self, rate: float, random: np.random.Generator, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._random = random
        self._clock = clock
        self._next = clock()

    def pause(self) -> float:
        """Return how many seconds to wait for the next moment."""
        self._next += float(self._random.exponential(1 / self._rate))
        return max(self._next - self._clock(), 0.0)


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(
        description="Keep a demo's orders table in PostgreSQL changing, until Ctrl-C.",
        epilog="libpq's environment variables (PGHOST, PGUSER, ...) name the database.",
    )
    parser.add_argument("--commits", type=int, help="stop after this number of transactions")
    parser.add_argument("--rate", type=float, default=RATE, help="transactions a second, on average (%(default)g)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    schedule = Schedule(arguments.rate, np.random.default_rng(arguments.seed), time.monotonic)
    with psycopg.connect(autocommit=True) as connection:
        done = write_until_stopped(
            PostgresWriter(connection, arguments.seed),
            commits=arguments.commits,
            pause=schedule.pause,
            report=arguments.report,
        )
    print(", ".join(f"{name} {count}" for name, count in asdict(done).items()))


if __name__ == "__main__":
    main()
