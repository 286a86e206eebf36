"""How long changes of an unfinished view may wait."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.job.visibility import MOST_OFFSETS, may_wait

HOUR = dt.timedelta(hours=1)


@pytest.mark.parametrize(
    ("offsets", "hours", "waits"),
    [
        (0, 0, True),
        (MOST_OFFSETS - 1, 0, True),
        (MOST_OFFSETS, 0, False),
        (1, 11.9, True),
        (1, 12, False),
        (1, -1, True),
    ],
)
def test_changes_wait_for_half_of_the_time_that_they_are_kept(offsets, hours, waits):
    assert may_wait(offsets=offsets, oldest_age=hours * HOUR, kept_for=24 * HOUR) is waits


def test_changes_do_not_wait_if_their_retention_is_unknown():
    """I6."""
    assert not may_wait(offsets=1, oldest_age=0 * HOUR, kept_for=None)
