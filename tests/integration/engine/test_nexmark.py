"""
Nexmark's queries of groups and of top rows, over bids that also change and are withdrawn.

Nexmark's bids are a stream of appends; here a bid has a number, and may be raised, moved to another auction, or
removed. Plain Python computes the expected rows. What Nexmark leaves to chance, the number of the bid decides.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, date_time TIMESTAMP_NTZ"

_BEGIN = dt.datetime(2026, 3, 1, 23, 0)
_LOW, _HIGH = 10_000, 1_000_000

_COUNTS = """count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""

Q7 = """
SELECT auction, price, bidder, date_time FROM upstream
QUALIFY rank() OVER (PARTITION BY date_trunc('HOUR', date_time) ORDER BY price DESC) = 1
"""
Q15 = f"""
SELECT date_format(date_time, 'yyyy-MM-dd') AS day, {_COUNTS},
  count(DISTINCT bidder) AS total_bidders, count(DISTINCT auction) AS total_auctions,
  count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders
FROM upstream GROUP BY date_format(date_time, 'yyyy-MM-dd')
"""
Q16 = f"""
SELECT channel, date_format(date_time, 'yyyy-MM-dd') AS day, max(date_format(date_time, 'HH:mm')) AS minute, {_COUNTS},
  count(DISTINCT bidder) AS total_bidders
FROM upstream GROUP BY channel, day
"""
Q17 = f"""
SELECT auction, date_format(date_time, 'yyyy-MM-dd') AS day, {_COUNTS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM upstream GROUP BY auction, date_format(date_time, 'yyyy-MM-dd')
"""
Q18 = """
SELECT auction, bidder, price, channel, date_time
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, id) AS rank_number FROM upstream
)
WHERE rank_number <= 1
"""
Q19 = """
SELECT * FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, id) AS rank_number FROM upstream
)
WHERE rank_number <= 3
"""


@dataclass(frozen=True, slots=True)
class Bid:
    """A bid."""

    id: int
    auction: int
    bidder: int
    price: int
    channel: str
    at: dt.datetime

    @property
    def day(self) -> str:
        """The day on which it was made."""
        return f"{self.at:%Y-%m-%d}"

    @property
    def sql(self) -> str:
        """Its values in SQL."""
        return f"({self.id}, {self.auction}, {self.bidder}, {self.price}, '{self.channel}', TIMESTAMP_NTZ'{self.at}')"


Rows = list[tuple[Any, ...]]


def grouped(bids: Iterable[Bid], key: Callable[[Bid], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Bid]]:
    """Return bids by a key."""
    found = defaultdict(list)
    for bid in bids:
        found[key(bid)].append(bid)
    return found


def counts(bids: list[Bid]) -> tuple[int, ...]:
    """Return the number of bids, and of those with a low, a middle and a high price."""
    low = sum(bid.price < _LOW for bid in bids)
    high = sum(bid.price >= _HIGH for bid in bids)
    return len(bids), low, len(bids) - low - high, high


def bidders(bids: Iterable[Bid]) -> int:
    """Return the number of bidders."""
    return len({bid.bidder for bid in bids})


def q7(bids: Iterable[Bid]) -> Rows:
    """Return the highest bids of each hour."""
    found = []
    for of_hour in grouped(bids, lambda bid: (bid.at.replace(minute=0, second=0),)).values():
        most = max(bid.price for bid in of_hour)
        found += [(bid.auction, bid.price, bid.bidder, bid.at) for bid in of_hour if bid.price == most]
    return found


def q15(bids: Iterable[Bid]) -> Rows:
    """Return statistics of each day."""
    return [
        (
            *day,
            *counts(of),
            bidders(of),
            len({one.auction for one in of}),
            bidders(one for one in of if one.price < _LOW),
        )
        for day, of in grouped(bids, lambda bid: (bid.day,)).items()
    ]


def q16(bids: Iterable[Bid]) -> Rows:
    """Return statistics of each channel and day."""
    return [
        (*key, max(f"{one.at:%H:%M}" for one in of), *counts(of), bidders(of))
        for key, of in grouped(bids, lambda bid: (bid.channel, bid.day)).items()
    ]


def q17(bids: Iterable[Bid]) -> Rows:
    """Return statistics of each auction and day."""
    found = []
    for key, of in grouped(bids, lambda bid: (bid.auction, bid.day)).items():
        prices = [bid.price for bid in of]
        found.append((*key, *counts(of), min(prices), max(prices), sum(prices) / len(prices), sum(prices)))
    return found


def q18(bids: Iterable[Bid]) -> Rows:
    """Return the last bid of each bidder in each auction."""
    latest = (
        max(of, key=lambda bid: (bid.at, -bid.id))
        for of in grouped(bids, lambda bid: (bid.bidder, bid.auction)).values()
    )
    return [(bid.auction, bid.bidder, bid.price, bid.channel, bid.at) for bid in latest]


def q19(bids: Iterable[Bid]) -> Rows:
    """Return the three highest bids of each auction."""
    return [
        (bid.id, bid.auction, bid.bidder, bid.price, bid.channel, bid.at, place)
        for of in grouped(bids, lambda bid: (bid.auction,)).values()
        for place, bid in enumerate(sorted(of, key=lambda bid: (-bid.price, bid.id))[:3], start=1)
    ]


class Bids:
    """The bids, as a table and as Python's values."""

    def __init__(self, lakehouse: Lakehouse) -> None:
        self._lakehouse = lakehouse
        self._random = random.Random(19)
        self.bids: dict[int, Bid] = {}

    def add(self, ids: Iterable[int]) -> None:
        """Make bids."""
        new = [self._bid(number) for number in ids]
        self.bids |= {bid.id: bid for bid in new}
        self._lakehouse.sql(f"INSERT INTO {{upstream}} VALUES {', '.join(bid.sql for bid in new)}")

    def raise_some(self) -> None:
        """Raise bids, some of them over the highest of their auction."""
        self.bids = {
            number: replace(bid, price=bid.price * 3) if number % 4 == 0 else bid for number, bid in self.bids.items()
        }
        self._lakehouse.sql("UPDATE {upstream} SET price = price * 3 WHERE id % 4 = 0")

    def move_some(self) -> None:
        """Move bids to another auction and another day."""
        day = dt.timedelta(days=1)
        self.bids = {
            number: replace(bid, auction=2, at=bid.at + day) if number % 7 == 1 else bid
            for number, bid in self.bids.items()
        }
        self._lakehouse.sql(
            "UPDATE {upstream} SET auction = 2, date_time = date_time + INTERVAL '1' DAY WHERE id % 7 = 1"
        )

    def withdraw(self) -> None:
        """Remove the highest bids, and all of one auction."""
        self.bids = {number: bid for number, bid in self.bids.items() if bid.price < 2 * _HIGH and bid.auction != 1}
        self._lakehouse.sql(f"DELETE FROM {{upstream}} WHERE price >= {2 * _HIGH} OR auction = 1")

    def _bid(self, number: int) -> Bid:
        chance = self._random
        return Bid(
            id=number,
            auction=chance.randint(1, 5),
            bidder=chance.randint(1, 6),
            price=round(10 ** chance.uniform(2, 6.5)),
            channel=chance.choice(("Google", "Baidu", "channel-1")),
            at=_BEGIN + dt.timedelta(minutes=chance.randrange(150)),
        )


@pytest.mark.parametrize(
    ("query", "computed"),
    [
        exhaustive(Q7, q7, name="q7, highest bid"),
        exhaustive(Q15, q15, name="q15, days"),
        exhaustive(Q16, q16, name="q16, channels"),
        exhaustive(Q17, q17, name="q17, auctions"),
        exhaustive(Q18, q18, name="q18, last bid"),
        exhaustive(Q19, q19, name="q19, top three"),
    ],
)
def test_a_view_of_bids_is_what_python_computes_after_every_change(
    lakehouse: Lakehouse, query: str, computed: Callable[[Iterable[Bid]], Rows]
) -> None:
    """I1: a bid that is pushed out of the top comes back when the one above it is withdrawn."""
    bids = Bids(lakehouse)
    lakehouse.make_upstream(COLUMNS)
    bids.add(range(80))
    lakehouse.create(query=query)
    bids.raise_some()
    lakehouse.finish()

    def require() -> None:
        found = [tuple(row) for row in lakehouse.view().select(*visible(lakehouse)).collect()]
        assert sorted(found) == sorted(computed(bids.bids.values()))

    require()
    for change in (lambda: bids.add(range(100, 120)), bids.move_some, bids.withdraw):
        change()
        lakehouse.epoch()
        require()


def visible(lakehouse: Lakehouse) -> list[str]:
    """Return the columns of the view that its query names."""
    return [f"`{name}`" for name in lakehouse.view().columns if not name.startswith("__")]
