"""
TPC-H's queries of one table, Q1 and Q6, over line items that change as TPC-H's refresh functions change them.

Python's decimals compute the expected rows from a copy of the line items, by the text of the benchmark's specification.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby
from typing import Any

import pytest

from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = (
    "l_orderkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), "
    "l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE"
)

Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base_price,
  sum(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
  sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
  avg(l_quantity) AS avg_qty, avg(l_extendedprice) AS avg_price, avg(l_discount) AS avg_disc, count(*) AS count_order
FROM upstream WHERE l_shipdate <= DATE'1998-12-01' - INTERVAL '90' DAY GROUP BY l_returnflag, l_linestatus
"""
Q6 = """
SELECT sum(l_extendedprice * l_discount) AS revenue FROM upstream
WHERE l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1994-01-01' + INTERVAL '1' YEAR
  AND l_discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND l_quantity < 24
"""


@dataclass(frozen=True, slots=True)
class LineItem:
    """A line of an order."""

    order: int
    line: int
    quantity: Decimal
    price: Decimal
    discount: Decimal
    tax: Decimal
    flag: str
    status: str
    shipped: dt.date

    @property
    def key(self) -> tuple[int, int]:
        """What identifies it."""
        return self.order, self.line

    @property
    def sql(self) -> str:
        """Its values in SQL."""
        *others, shipped = astuple(self)
        return f"({', '.join(repr(one) if isinstance(one, str) else str(one) for one in others)}, DATE'{shipped}')"


def an_order(random: random.Random, order: int) -> Iterator[LineItem]:
    """Yield the lines of an order, with values in the ranges of the specification."""
    for line in range(1, random.randint(1, 7) + 1):
        shipped = dt.date(1992, 1, 2) + dt.timedelta(days=random.randrange(2_525))
        is_old = shipped <= dt.date(1995, 6, 17)
        yield LineItem(
            order=order,
            line=line,
            quantity=Decimal(random.randint(1, 50)),
            price=Decimal(random.randint(90_000, 10_000_000)) / 100,
            discount=Decimal(random.randint(0, 10)) / 100,
            tax=Decimal(random.randint(0, 8)) / 100,
            flag=random.choice("RA") if is_old else "N",
            status="F" if is_old else "O",
            shipped=shipped,
        )


def average(values: list[Decimal]) -> Decimal:
    """Return an average as Spark has it of DECIMAL(15, 2): with four more digits, rounded half up."""
    return (sum(values, Decimal()) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def q1(lines: Iterable[LineItem]) -> list[tuple[Any, ...]]:
    """Return the pricing summary report."""

    def group(line: LineItem) -> tuple[str, str]:
        return line.flag, line.status

    found = []
    for key, lines_of in groupby(sorted(filter(lambda o: o.shipped <= dt.date(1998, 9, 2), lines), key=group), group):
        kept = list(lines_of)
        discounted = [one.price * (1 - one.discount) for one in kept]
        found.append(
            (
                *key,
                sum(one.quantity for one in kept),
                sum(one.price for one in kept),
                sum(discounted),
                sum(price * (1 + one.tax) for price, one in zip(discounted, kept, strict=True)),
                average([one.quantity for one in kept]),
                average([one.price for one in kept]),
                average([one.discount for one in kept]),
                len(kept),
            )
        )
    return found


def q6(lines: Iterable[LineItem]) -> list[tuple[Any, ...]]:
    """Return the forecast change of revenue."""
    kept = [
        line.price * line.discount
        for line in lines
        if line.shipped.year == 1994 and Decimal("0.05") <= line.discount <= Decimal("0.07") and line.quantity < 24
    ]
    return [(sum(kept) if kept else None,)]


class LineItems:
    """The line items, as a table and as Python's values."""

    def __init__(self, lakehouse: Lakehouse, random: random.Random) -> None:
        self._lakehouse = lakehouse
        self._random = random
        self.lines: dict[tuple[int, int], LineItem] = {}

    def add(self, orders: Iterable[int]) -> None:
        """Insert orders, as the first refresh function does."""
        new = [line for order in orders for line in an_order(self._random, order)]
        self.lines |= {line.key: line for line in new}
        self._lakehouse.sql(f"INSERT INTO {{upstream}} VALUES {', '.join(line.sql for line in new)}")

    def remove(self, orders: set[int]) -> None:
        """Delete orders, as the second refresh function does."""
        self.lines = {key: line for key, line in self.lines.items() if line.order not in orders}
        self._lakehouse.sql(f"DELETE FROM {{upstream}} WHERE l_orderkey IN ({', '.join(map(str, orders))})")

    def return_goods(self) -> None:
        """Move lines to another group: what was ordered is returned."""
        self.lines = {
            key: replace(line, flag="R") if line.flag == "N" and line.order % 5 == 0 else line
            for key, line in self.lines.items()
        }
        self._lakehouse.sql("UPDATE {upstream} SET l_returnflag = 'R' WHERE l_returnflag = 'N' AND l_orderkey % 5 = 0")

    def ship_later(self) -> None:
        """Move lines out of the year that Q6 looks at, and beyond the day that Q1 looks at."""
        self.lines = {
            key: replace(line, shipped=dt.date(1998, 12, 1)) if line.order % 3 == 0 else line
            for key, line in self.lines.items()
        }
        self._lakehouse.sql("UPDATE {upstream} SET l_shipdate = DATE'1998-12-01' WHERE l_orderkey % 3 = 0")


@pytest.mark.parametrize(("query", "computed"), [exhaustive(Q1, q1, name="Q1"), exhaustive(Q6, q6, name="Q6")])
def test_a_view_of_the_benchmark_is_what_its_specification_says_after_every_refresh(
    lakehouse: Lakehouse, query: str, computed: Callable[[Iterable[LineItem]], list[tuple[Any, ...]]]
) -> None:
    """I1: sums and averages of decimals are exact, also of an empty table."""
    items = LineItems(lakehouse, random.Random(6))
    lakehouse.make_upstream(COLUMNS)
    items.add(range(60))
    lakehouse.create(query=query, key=["l_orderkey", "l_linenumber"])
    items.add(range(60, 70))
    lakehouse.finish()

    def require() -> None:
        # Values that differ in their scale alone are equal.
        expected = computed(items.lines.values())
        view = lakehouse.view()
        results = view.select(*(name for name in view.columns if not name.startswith("__")))
        assert sorted(tuple(row) for row in results.collect()) == sorted(expected)

    require()
    for change in (lambda: items.remove({2, 3, 61}), items.return_goods, items.ship_later):
        change()
        lakehouse.epoch()
        require()
    items.remove(set(range(70)))
    lakehouse.epoch()
    require()
