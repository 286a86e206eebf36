"""What waits for an approval, in one sentence."""

from __future__ import annotations

import datetime as dt

from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.core.status.cut_over import REMEDY, CutOverStatus

SINCE = dt.datetime(2026, 3, 1, 8, 30, tzinfo=dt.UTC)


def test_what_waits_says_since_when_until_when_and_what_to_do():
    for_ever = CutOverStatus(kind=CutOverKind.REBUILD, ready_since=SINCE)
    assert for_ever.line == "the rebuild is ready since 2026-03-01 08:30 UTC, and waits for an approval"
    until = for_ever.model_copy(update={"given_up_at": SINCE + dt.timedelta(hours=48)})
    assert str(until) == f"{for_ever.line} until 2026-03-03 08:30 UTC; {REMEDY}"
