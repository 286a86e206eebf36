"""Time spans as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.durations import duration

UNITS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (60, "1 min 0 s"),
        (3_599, "59 min 59 s"),
        (3_600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d 0 h"),
        (100 * 86_400 + 7 * 3_600, "100 d 7 h"),
    ],
)
def test_the_two_largest_units_are_named(seconds, text):
    assert duration(seconds) == text


@settings(max_examples=50)
@given(st.integers(0, 10**7))
def test_less_than_one_of_the_smaller_unit_is_left_out(seconds):
    words = duration(seconds).split()
    named = [(int(number), UNITS[unit]) for number, unit in zip(words[::2], words[1::2], strict=True)]
    assert 0 <= seconds - sum(number * unit for number, unit in named) < named[-1][1]
