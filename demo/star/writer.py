"""
Keep the tables of a star changing: ``python -m demo.star.writer ORDERS CUSTOMERS COUNTRIES``.

Each transaction is one commit to one of the tables. Most change orders. Others make customers move to another country,
leave, come back or get another name, and a few give a country another name, which changes all of its customers' orders.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
from deltalake import DeltaTable, QueryBuilder

from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from demo.delta.writer import DeltaWriter
from demo.orders import CUSTOMERS
from demo.orders_writer import Report, write_until_stopped
from demo.star.tables import CODES, COUNTRIES, append_customers, make_customers

WIDTH = 20
"""How many neighbouring customers one operation changes."""


class StarWriter:
    """
    Writes one commit at a time, to one of three tables.

    :param orders: the location of the orders; the options of an object store come from the environment.
    :param customers: that of the customers.
    :param countries: that of the countries.
    :param seed: the same seed makes the same choices.
    """

    def __init__(self, orders: str, customers: str, countries: str, seed: int) -> None:
        options = storage_options_from_environment()
        self._random = np.random.default_rng(seed + 1)
        self._orders = DeltaWriter(orders, seed)
        self._path = customers
        self._customers = DeltaTable(customers, storage_options=options)
        self._countries = DeltaTable(countries, storage_options=options)
        self._gone: list[list[int]] = []

    @property
    def report(self) -> Report:
        """The counts of all three tables."""
        return self._orders.report

    def commit(self) -> None:
        """Write one operation of a random kind as one commit."""
        kinds: dict[Callable[[], None], float] = {
            self._orders.commit: 0.6,
            self._move: 0.14,
            self._rename: 0.1,
            self._leave: 0.06,
            self._come_back: 0.06,
            self._rename_country: 0.04,
        }
        chosen = list(kinds)[self._random.choice(len(kinds), p=list(kinds.values()))]
        chosen()
        if chosen != self._orders.commit:
            self.report.commits += 1
        tables = {"orders": self._orders.version, "customers": self._customers.version()}
        tables["countries"] = self._countries.version()
        self.report.now_at = "version " + ", ".join(f"{version} of {name}" for name, version in tables.items())

    def _move(self) -> None:
        self._change_customers({"country": f"'{self._random.choice(CODES)}'"})

    def _rename(self) -> None:
        self._change_customers({"customer": "customer || '!'"})

    def _change_customers(self, changes: dict[str, str]) -> None:
        metrics = self._customers.update(predicate=self._few_customers(), updates=changes)
        self.report.updated += int(metrics["num_updated_rows"])

    def _leave(self) -> None:
        few = self._few_customers()
        query = QueryBuilder().register("customers", self._customers)
        found = query.execute(f"SELECT customer_id FROM customers WHERE {few}").read_all()
        ids = list(found["customer_id"].to_pylist())
        if ids:
            self._customers.delete(few)
            self._gone.append(ids)
        self.report.deleted += len(ids)

    def _come_back(self) -> None:
        if not self._gone:
            self._move()
            return
        ids = np.array(sorted(self._gone.pop()), dtype=np.int64)
        append_customers(self._path, make_customers(ids, self._random))
        self._customers.update_incremental()
        self.report.inserted += len(ids)

    def _rename_country(self) -> None:
        code = str(self._random.choice(CODES))
        title = f"{COUNTRIES[code]} ({int(self._random.integers(2, 100))})"
        metrics = self._countries.update(predicate=f"code = '{code}'", updates={"title": f"'{title}'"})
        self.report.updated += int(metrics["num_updated_rows"])

    def _few_customers(self) -> str:
        """Return a condition of some neighbouring customers, often among those with many orders."""
        newest = WIDTH * 10 if self._random.random() < 0.5 else CUSTOMERS  # noqa: PLR2004 - a coin
        first = int(self._random.integers(1, newest - WIDTH))
        return f"customer_id > {first} AND customer_id <= {first + WIDTH}"


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description="Keep the tables of the demo's star changing, until Ctrl-C.")
    for table in ("orders", "customers", "countries"):
        parser.add_argument(table)
    parser.add_argument("--commits", type=int, help="stop after this number of commits")
    parser.add_argument("--pause", type=float, default=0.5, metavar="SECONDS", help="seconds between two commits")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    done = write_until_stopped(
        StarWriter(arguments.orders, arguments.customers, arguments.countries, arguments.seed),
        commits=arguments.commits,
        pause=lambda: arguments.pause,
        report=arguments.report,
    )
    print(", ".join(f"{name} {count}" for name, count in asdict(done).items()))


if __name__ == "__main__":
    main()
