"""Creating a job about a part of an upstream."""

from __future__ import annotations

import pytest

from tests.property.backfilling import Backfilling
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.mark.parametrize(
    ("restriction", "ids", "strategy"),
    [
        ({"keys": {"after": [2], "up_to": [6]}}, {3, 4, 5, 6}, "no_shuffle"),
        ({"keys": {"after": [2], "up_to": [6]}}, {3, 4, 5, 6}, "arrangement"),
        exhaustive({"keys": {"after": [7]}}, {8, 9, 20}, "no_shuffle"),
        exhaustive({"keys": {"after": [7]}}, {8, 9, 20}, "arrangement"),
        exhaustive({"keys": {"up_to": [0]}}, {None, 0}, "no_shuffle"),
        exhaustive({"keys": {"up_to": [0]}}, {None, 0}, "arrangement"),
        exhaustive({"vnodes": ["0-1"]}, None, "no_shuffle"),
        exhaustive({"vnodes": ["0-1"]}, None, "arrangement"),
        exhaustive({"vnodes": [3], "keys": {"after": [1]}}, None, "no_shuffle"),
        ({"vnodes": [3], "keys": {"after": [1]}}, None, "arrangement"),
    ],
)
def test_a_job_about_a_part_of_the_upstream_shows_that_part(lake, restriction, ids, strategy):
    """I1, while rows come into the part and leave it."""
    backfilling = Backfilling(lake, rate_limit=2, strategy=strategy, restrict_to=restriction)
    backfilling.orders.add(None, *range(1, 10))
    backfilling.create()
    backfilling.epoch()
    backfilling.orders.add(0, 20)
    backfilling.orders.change([2, 3, 8], amount=9)
    backfilling.finish_watched()
    backfilling.orders.rekey({9: 90, 6: 60})
    backfilling.orders.rekey({90: 9, 60: 6})
    backfilling.finish()
    if ids is not None:
        assert {row[0] for row in backfilling.rows()} == ids


@pytest.mark.parametrize(
    ("strategy", "restriction", "rows"),
    [
        ("no_shuffle", {"vnodes": ["0-1"]}, 6),
        ("arrangement", {"vnodes": ["0-1"]}, 6),
        ("arrangement", {"keys": {"after": [2], "up_to": [6]}}, 4),
        ("no_shuffle", {}, 12),
    ],
)
def test_a_job_about_a_part_expects_that_part_of_the_rows(lake, strategy, restriction, rows):
    """Otherwise its progress would never come near the end; a share of the vnodes is a share of the rows."""
    backfilling = Backfilling(lake, rate_limit=1, strategy=strategy, restrict_to=restriction)
    backfilling.orders.add(*range(12))
    backfilling.create()
    assert backfilling.inject().upstream.row_count == rows


def test_a_part_that_begins_within_a_composite_key_is_read_in_one_epoch(lake):
    """Its bound is shorter than the key; the state has a column for each key column."""
    upstream = {"path": f"{lake}/orders", "key": ["status", "id"]}
    backfilling = Backfilling(
        lake,
        upstream=upstream,
        strategy="no_shuffle",
        rate_limit=None,
        restrict_to={"keys": {"after": ["draft"], "up_to": ["paid"]}},
    )
    backfilling.orders.add(1, 2, status="draft")
    backfilling.orders.add(3, 4, status="paid")
    backfilling.orders.add(5, status="void")
    backfilling.create()
    backfilling.finish_watched()
    assert [row[0] for row in backfilling.rows()] == [3, 4]
