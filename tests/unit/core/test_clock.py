"""The clock of records."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.clock import utc_now


def test_an_instant_knows_its_zone():
    """Records of machines in different zones are compared."""
    before = dt.datetime.now(dt.UTC)
    now = utc_now()
    assert before <= now <= dt.datetime.now(dt.UTC)
    assert now.utcoffset() == dt.timedelta(0)
