"""
Keeps an orders table changing, whatever it is stored in.

The writer makes one transaction after another, until it is stopped: new orders, orders that were deleted and come back,
status changes (which move rows in and out of a view's filter), deletes, and orders that move to another region, which
changes their key.
"""

from __future__ import annotations

import json
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

import numpy as np
import pyarrow as pa

from demo.orders import REGIONS, Integers, make_orders

NEXT_STATUS = (
    "CASE status WHEN 'open' THEN 'paid' WHEN 'paid' THEN 'shipped' WHEN 'shipped' THEN 'returned' ELSE 'open' END"
)


@dataclass
class Report:
    """
    The counts of written rows.

    :param now_at: the newest point of the table's history, in the table's own terms.
    """

    now_at: str = ""
    commits: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    rekeyed: int = 0


@dataclass(frozen=True, slots=True)
class Widths:
    """
    How much one operation changes.

    :param inserted: the most new orders.
    :param updated: how many neighbouring ids an update looks at; about every third is an order.
    :param deleted: the same of a delete.
    :param rekeyed: the same of orders that move to another region.
    """

    inserted: int
    updated: int
    deleted: int
    rekeyed: int


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


class Writer(Protocol):
    """Writes one transaction after another."""

    @property
    def report(self) -> Report:
        """The counts so far."""
        ...

    def commit(self) -> None:
        """Write one transaction, and count it."""
        ...


class OrdersWriter(ABC):
    """
    Chooses what to change next. A subclass writes it.

    :param random: makes the choices.
    :param newest: the largest order id by region.
    """

    def __init__(self, random: np.random.Generator, newest: Mapping[str, int]) -> None:
        self._random = random
        self._newest = {region: newest.get(region, 0) for region in REGIONS}
        self._deleted: dict[str, list[int]] = {}
        self.report = Report()

    @abstractmethod
    def commit(self) -> None:
        """Write one transaction, and count it."""

    @abstractmethod
    def append(self, orders: pa.Table) -> None:
        """Insert orders."""

    @abstractmethod
    def change(self, orders: Span, changes: Mapping[str, str]) -> int:
        """
        Change columns of orders, and set ``updated_at`` to the present time.

        :param changes: column → SQL expression.
        :returns: the number of changed orders.
        """

    @abstractmethod
    def remove(self, orders: Span) -> list[int]:
        """Delete orders, and return their ids."""

    def operate(self, widths: Widths) -> None:
        """Do one operation of a random kind."""
        kinds: dict[Callable[[Widths], None], float] = {
            self._insert: 0.3,
            self._update: 0.3,
            self._delete: 0.14,
            self._rekey: 0.18,
            self._insert_again: 0.08,
        }
        chosen = self._random.choice(len(kinds), p=list(kinds.values()))
        list(kinds)[chosen](widths)

    def _insert(self, widths: Widths) -> None:
        region = self._region()
        count = int(self._random.integers(max(widths.inserted // 6, 1), widths.inserted + 1))
        self._append(region, self._reserve(region, 3 * count).first + 3 * np.arange(count, dtype=np.int64))

    def _insert_again(self, widths: Widths) -> None:
        if self._deleted:
            region, ids = self._deleted.popitem()
            self._append(region, np.array(sorted(ids), dtype=np.int64))
        else:
            self._insert(widths)

    def _append(self, region: str, ids: Integers) -> None:
        self.append(make_orders(region, ids, self._random))
        self.report.inserted += len(ids)

    def _update(self, widths: Widths) -> None:
        changes = {
            "status": NEXT_STATUS,
            "amount": "amount + 0.25",
            "notes": "CASE WHEN notes IS NULL THEN 'changed' ELSE NULL END",
        }
        self.report.updated += self.change(self._few_orders(widths.updated), changes)

    def _rekey(self, widths: Widths) -> None:
        orders = self._few_orders(widths.rekeyed)
        region = str(self._random.choice([other for other in sorted(REGIONS) if other != orders.region]))
        moved = self._reserve(region, orders.end - orders.first)
        changes = {
            "region": f"'{region}'",
            "order_id": f"order_id - {orders.first} + {moved.first}",
            "country": f"'{REGIONS[region][0]}'",
        }
        self.report.rekeyed += self.change(orders, changes)

    def _delete(self, widths: Widths) -> None:
        orders = self._few_orders(widths.deleted)
        if ids := self.remove(orders):
            self._deleted.setdefault(orders.region, []).extend(ids)
        self.report.deleted += len(ids)

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


def write_until_stopped(
    writer: Writer, *, commits: int | None, pause: Callable[[], float], report: Path | None
) -> Report:
    """
    Commit until the given number is reached, a signal to stop comes, or the parent process is gone.

    :param commits: how many commits; ``None`` for any number.
    :param pause: returns how many seconds to wait before the next commit.
    :param report: the file with the counts, written again after each commit.
    """
    # A handler may interrupt the wait for it; setting an event would then wait for the event's own lock.
    stop: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signalled, _: stop.put(signalled))
    parent = os.getppid()
    while stop.empty() and os.getppid() == parent and (commits is None or writer.report.commits < commits):
        writer.commit()
        if report is not None:
            unfinished = report.with_suffix(".new")
            unfinished.write_text(json.dumps(asdict(writer.report)), encoding="utf-8")
            unfinished.replace(report)
        try:
            stop.get(timeout=pause())
        except Empty:
            continue
        break
    return writer.report


def read_report(file: Path) -> Report | None:
    """Return the counts of a writer; ``None`` before its first commit."""
    try:
        return Report(**json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
