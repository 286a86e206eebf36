"""How long changes stay, as Delta writes it."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.lake.retention import DELETED_FILES, LOG, changes_kept_for


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
        ({DELETED_FILES: "soon"}, 7 * 24),
    ],
)
def test_the_shorter_one_counts(properties, hours):
    assert changes_kept_for(properties) == dt.timedelta(hours=hours)
