"""What a status says about each of several upstreams; nothing about the only one."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.upstream_status import (
    UpstreamStatus,
    furthest_behind,
    smallest_headroom,
    upstream_statuses,
)
from tests.builders import NOW, barrier_of, settings_of

DAY = dt.timedelta(days=1)


def needing(days):
    return ChangeFeed(latest=Offset(4), kept_for=days * DAY, needed=Offset(3), needed_since=NOW)


def test_the_only_upstream_has_no_entry():
    assert upstream_statuses(settings_of(), barrier_of(), needing(7), {}, {}, NOW) == {}


def test_the_smallest_headroom_counts():
    idle = ChangeFeed(latest=Offset(4), kept_for=DAY)
    assert smallest_headroom([needing(7), idle, needing(2)], NOW) == 48
    assert smallest_headroom([idle], NOW) is None


def behind(versions, seconds, *, answers=True):
    return UpstreamStatus(
        location="/lake/table",
        leads=False,
        version=Offset(1),
        as_of=NOW,
        latest_version=Offset(1 + versions),
        lag_versions=versions,
        offset_name="version",
        lag_unit="version",
        lag_seconds=seconds,
        behind_since=None,
        answers=answers,
        headroom_hours=None,
    )


def test_a_view_is_furthest_behind_what_it_has_not_read_for_the_longest_time():
    assert furthest_behind({}) == ""
    assert furthest_behind({"orders": behind(0, 0.0), "customers": behind(0, 0.0)}) == "orders"
    assert furthest_behind({"orders": behind(9, 10.0), "customers": behind(1, 60.0)}) == "customers"
    assert furthest_behind({"orders": behind(0, 0.0), "customers": behind(1, None)}) == "customers"


def test_an_upstream_that_does_not_answer_may_be_behind_any_other():
    found = {"orders": behind(9, 1e6), "customers": behind(0, None, answers=False)}
    assert furthest_behind(found) == "customers"
