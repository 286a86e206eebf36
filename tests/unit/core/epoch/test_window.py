"""The window of an upstream: whether it has any offset, and which point it reaches."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from tests.builders import window_of


def test_a_window_is_wide_if_it_has_an_offset():
    assert window_of(3, 4).is_wide
    assert not window_of(4, 4).is_wide


def test_a_window_that_ends_before_all_history_reaches_no_point():
    assert window_of(-1, 0).reached_point.offset == Offset(0)
    assert window_of(to_offset=BEGINNING).reached_point is None
