"""Where all output of an application goes."""

from __future__ import annotations

from airflow_backfill_provider.hooks.application_log import make_log


def test_each_attempt_has_a_file_that_only_its_owner_may_read():
    first, second = (make_log("orders", "epoch-1", attempt) for attempt in ("a", "b"))
    assert first != second
    assert first.stat().st_mode & 0o777 == 0o600
    assert (first.name, first.parent.name) == ("epoch-1-a.log", "orders")
