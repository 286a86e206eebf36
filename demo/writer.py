"""
Keep an orders table changing: ``python -m demo.writer TABLE``.

The writer makes one commit after another, until it is stopped: new orders, orders that were deleted and come back,
status changes (which move rows in and out of a view's filter), deletes, and orders that move to another region, which
changes their key. All changes are in the table's change data feed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from deltalake import DeltaTable, QueryBuilder

from demo.upstream import REGIONS, Integers, append_orders, make_orders

NEXT_STATUS = (
    "CASE status WHEN 'open' THEN 'paid' WHEN 'paid' THEN 'shipped' WHEN 'shipped' THEN 'returned' ELSE 'open' END"
)


@dataclass
class Report:
    """The counts of written rows."""

    version: int = -1
    commits: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rekeyed: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """The orders of a region with ids in ``[first, end)``."""

    region: str
    first: int
    end: int

    @property
    def sql(self) -> str:
        """The span as a predicate."""
        return f"region = '{self.region}' AND order_id >= {self.first} AND order_id < {self.end}"


class Writer:
    """
    Writes one commit at a time.

    :param path: the orders table.
    :param seed: the same seed makes the same choices.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._random = np.random.default_rng(seed)
        self._table = DeltaTable(str(path))
        self._newest = _newest_orders(self._table)
        self._deleted: dict[str, list[int]] = {}
        self.report = Report()

    def commit(self) -> None:
        """Write one commit."""
        kinds: dict[Callable[[], None], float] = {
            self._insert: 0.3,
            self._update: 0.3,
            self._delete: 0.14,
            self._rekey: 0.18,
            self._insert_again: 0.08,
        }
        chosen = self._random.choice(len(kinds), p=list(kinds.values()))
        list(kinds)[chosen]()
        self._table.update_incremental()
        self.report.commits += 1
        self.report.version = self._table.version()

    def _insert(self) -> None:
        region, count = self._region(), int(self._random.integers(10, 60))
        self._append(region, self._reserve(region, 3 * count).first + 3 * np.arange(count, dtype=np.int64))

    def _insert_again(self) -> None:
        if self._deleted:
            region, ids = self._deleted.popitem()
            self._append(region, np.array(sorted(ids), dtype=np.int64))
        else:
            self._insert()

    def _append(self, region: str, ids: Integers) -> None:
        append_orders(self._path, make_orders(region, ids, self._random))
        self.report.inserted += len(ids)

    def _update(self) -> None:
        changes = {
            "status": NEXT_STATUS,
            "amount": "amount + 0.25",
            "notes": "CASE WHEN notes IS NULL THEN 'changed' ELSE NULL END",
        }
        self.report.updated += self._change(self._few_orders(width=150), changes)

    def _rekey(self) -> None:
        orders = self._few_orders(width=30)
        region = str(self._random.choice([other for other in sorted(REGIONS) if other != orders.region]))
        moved = self._reserve(region, orders.end - orders.first)
        changes = {
            "region": f"'{region}'",
            "order_id": f"order_id - {orders.first} + {moved.first}",
            "country": f"'{REGIONS[region][0]}'",
        }
        self.report.rekeyed += self._change(orders, changes)

    def _change(self, orders: Span, changes: dict[str, str]) -> int:
        now = f"to_timestamp_micros({time.time_ns() // 1000})"
        metrics = self._table.update(predicate=orders.sql, updates={**changes, "updated_at": now})
        return int(metrics["num_updated_rows"])

    def _delete(self) -> None:
        orders = self._few_orders(width=40)
        query = QueryBuilder().register("orders", self._table)
        found = query.execute(f"SELECT order_id FROM orders WHERE {orders.sql}").read_all()
        metrics = self._table.delete(orders.sql)
        self._deleted.setdefault(orders.region, []).extend(found["order_id"].to_pylist())
        self.report.deleted += metrics["num_deleted_rows"]

    def _few_orders(self, width: int) -> Span:
        """Return some neighbouring orders, often among the newest ones, else from anywhere."""
        region = self._region()
        newest = self._newest[region]
        recent = self._random.random() < 0.5  # noqa: PLR2004 - a coin
        oldest = max(newest - max(newest // 30, width), 1) if recent else 1
        first = int(self._random.integers(oldest, max(newest - width, oldest) + 1))
        return Span(region, first, first + width)

    def _region(self) -> str:
        return str(self._random.choice(sorted(REGIONS)))

    def _reserve(self, region: str, width: int) -> Span:
        """Return ids that no order of the region has had."""
        first = self._newest[region] + 1
        self._newest[region] += width
        return Span(region, first, first + width)


def _newest_orders(table: DeltaTable) -> dict[str, int]:
    """Return the largest order id by region."""
    query = QueryBuilder().register("orders", table)
    found = query.execute("SELECT region, max(order_id) AS newest FROM orders GROUP BY region").read_all()
    known = dict(zip(found["region"].to_pylist(), found["newest"].to_pylist(), strict=True))
    return {region: int(known.get(region, 0)) for region in REGIONS}


def write_until_stopped(path: Path, *, commits: int | None, pause: float, report: Path | None, seed: int) -> Report:
    """
    Commit until the given number is reached, a signal to stop comes, or the parent process is gone.

    :param commits: how many commits; ``None`` for any number.
    :param pause: seconds between two commits.
    :param report: the file with the counts, written again after each commit.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    parent = os.getppid()
    writer = Writer(path, seed)
    while not stop.is_set() and os.getppid() == parent and (commits is None or writer.report.commits < commits):
        writer.commit()
        if report is not None:
            unfinished = report.with_suffix(".new")
            unfinished.write_text(json.dumps(asdict(writer.report)), encoding="utf-8")
            unfinished.replace(report)
        stop.wait(pause)
    return writer.report


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description="Keep a demo's orders table changing, until Ctrl-C.")
    parser.add_argument("table", type=Path)
    parser.add_argument("--commits", type=int, help="stop after this number of commits")
    parser.add_argument("--pause", type=float, default=0.5, metavar="SECONDS", help="seconds between two commits")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    done = write_until_stopped(
        arguments.table,
        commits=arguments.commits,
        pause=arguments.pause,
        report=arguments.report,
        seed=arguments.seed,
    )
    print(", ".join(f"{name} {count}" for name, count in asdict(done).items()))


if __name__ == "__main__":
    main()
