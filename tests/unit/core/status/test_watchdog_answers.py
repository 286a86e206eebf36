"""The watchdog's alarm while an upstream does not answer."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.alarm import AlarmKind
from tests.builders import NOW
from tests.unit.core.status.test_watchdog import HOUR, MINUTE, alarms_of, feed_of, log_of


def test_an_upstream_that_does_not_answer_is_an_alarm():
    """Only what the lake has is known then, such as the progress."""
    (alarm,) = alarms_of(([], []), MINUTE, feed=feed_of(unanswered="the database does not answer"))
    assert (alarm.kind, alarm.message) == (AlarmKind.STALLED, "the database does not answer")
    assert "its lag is unknown" in alarm.remedy


@pytest.mark.parametrize(("landed", "last"), [(None, NOW), (NOW - HOUR, NOW), (NOW + MINUTE, NOW + MINUTE)])
def test_of_an_upstream_that_does_not_answer_it_is_said_when_it_last_did(landed, last):
    """It answered before its newest barrier was pinned, and before changes were landed."""
    feed = feed_of(unanswered="the database does not answer", landed_at=landed)
    (alarm,) = alarms_of(log_of(), 5 * MINUTE, feed=feed)
    said = f"its last recorded answer is from {last:%Y-%m-%d %H:%M:%S} UTC"
    assert alarm.message == f"the database does not answer; {said}"
