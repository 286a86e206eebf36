"""How long changes stay, as Delta writes it."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.lake.log.retention import DELETED_FILES, LOG, changes_kept_for, unreadable


@pytest.mark.parametrize(
    ("properties", "hours"),
    [
        ({}, 7 * 24),
        ({DELETED_FILES: "interval 30 days"}, 30 * 24),
        ({DELETED_FILES: "interval 60 days"}, 30 * 24),
        ({DELETED_FILES: "interval 60 days", LOG: "interval 90 days"}, 60 * 24),
        ({LOG: "interval 1 day"}, 24),
        ({DELETED_FILES: "INTERVAL 1 WEEK 12 HOURS"}, 7 * 24 + 12),
        ({DELETED_FILES: "36 hours"}, 36),
        ({DELETED_FILES: "interval 90 minutes"}, 1.5),
        ({DELETED_FILES: "interval 0 hours"}, 0),
        ({LOG: "interval 0 days"}, 0),
        ({DELETED_FILES: " interval  7  days "}, 7 * 24),
        ({DELETED_FILES: "interval 1 days 1 days"}, 48),
        ({DELETED_FILES: "interval 1 day -3 hours"}, 21),
        ({DELETED_FILES: "interval + 1 days"}, 24),
        ({DELETED_FILES: "interval 1. seconds"}, 1 / 3600),
        ({DELETED_FILES: "interval 0 months 2 hours"}, 2),
    ],
)
def test_the_shorter_one_counts(properties, hours):
    assert changes_kept_for(properties) == dt.timedelta(hours=hours)


@pytest.mark.parametrize("name", [DELETED_FILES, LOG])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "interval",
        "7",
        "interval 1 month",
        "interval 1 year",
        "interval -1 days",
        "interval - 1 days",
        "INTERVAL '168' HOURS",
        "interval 1.5 hours",
        "interval 1day",
        "interval 7 d",
        "interval 1 0 days",
        "interval 1 day, 2 hours",
        "interval 99999999999 days",
        "interval 1 fortnight",
        "interval \u0661 days",
        "P7D",
    ],
)
def test_a_time_that_delta_refuses_is_unreadable(name, text):
    """I6: neither the default nor the part of the text that makes sense."""
    assert changes_kept_for({name: text}) is None
    assert unreadable({name: text}) == f"{name} = {text!r}"


def test_a_time_that_delta_accepts_is_readable():
    assert unreadable({DELETED_FILES: "168 hours"}) == ""
