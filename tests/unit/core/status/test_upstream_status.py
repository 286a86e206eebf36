"""What a status says about each of several upstreams; nothing about the only one."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.upstream_status import smallest_headroom, upstream_statuses
from tests.builders import NOW, barrier_of, settings_of

DAY = dt.timedelta(days=1)


def needing(days):
    return ChangeFeed(latest=Offset(4), kept_for=days * DAY, needed=Offset(3), needed_since=NOW)


def test_the_only_upstream_has_no_entry():
    assert upstream_statuses(settings_of(), barrier_of(), needing(7), {}, NOW) == {}


def test_the_smallest_headroom_counts():
    idle = ChangeFeed(latest=Offset(4), kept_for=DAY)
    assert smallest_headroom([needing(7), idle, needing(2)], NOW) == 48
    assert smallest_headroom([idle], NOW) is None
