"""How long the changes that a job needs are kept."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from tests.builders import NOW

DAY = dt.timedelta(days=1)


def feed(**changes):
    return ChangeFeed(**{"latest": Offset(4), "kept_for": 7 * DAY, **changes})


def test_nothing_that_is_needed_leaves_no_headroom_to_tell():
    assert feed().headroom(NOW) is None
    assert feed(needed=Offset(3), needed_since=NOW).without_changes().headroom(NOW) is None


def test_the_headroom_is_the_time_until_needed_changes_may_go():
    assert feed(needed=Offset(3), needed_since=NOW - 2 * DAY).headroom(NOW) == 5 * DAY
    assert feed(needed=Offset(3), needed_since=NOW - 9 * DAY).headroom(NOW) == dt.timedelta(0)
    assert feed(needed=Offset(3)).headroom(NOW) == dt.timedelta(0)


def test_what_is_needed_longest_counts():
    assert feed(needed=Offset(3), needed_since=NOW).needing(Offset(1), NOW - DAY).headroom(NOW) == 6 * DAY
    assert feed(needed=Offset(3), needed_since=NOW - DAY).needing(Offset(4), NOW).headroom(NOW) == 6 * DAY
