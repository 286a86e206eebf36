"""What the bounds of a file say about a range of keys."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, is_full, lies_within, may_hold_some_of
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from tests.builders import file_of, order_of

ORDER = order_of("long", ("string", True))
KEYS = [(None, None), (None, "b"), (1, None), (1, "b"), (1, "a"), (2, None), (2, "a")]
"""In order."""

BOUNDS = st.none() | st.sampled_from(KEYS) | st.sampled_from([(None,), (1,), (2,)])
RANGES = st.builds(KeyRange, BOUNDS, BOUNDS)


def bounded(lower, upper):
    return FileStatistics(path="f", row_count=1, lower=lower, upper=upper)


@settings(max_examples=80)
@given(st.lists(st.sampled_from(KEYS), min_size=1, max_size=4), RANGES)
def test_bounds_are_never_wrong_about_the_keys_of_a_file(keys, covered):
    """A file that is left out has no key of the range, and one that lies within it has no other."""
    file = file_of("f", keys, ORDER)
    inside = [covered.contains(key, ORDER) for key in keys]
    assert may_hold_some_of(file, covered, ORDER) or not any(inside)
    assert all(inside) or not lies_within(file, covered, ORDER)


@pytest.mark.parametrize(
    ("covered", "may_hold", "within"),
    [
        (EVERYTHING, True, True),
        (KeyRange(None, (9,)), True, True),
        (KeyRange(None, (8,)), True, False),
        (KeyRange(None, (3,)), False, False),
        (KeyRange((3,), None), True, True),
        (KeyRange((4,), None), True, False),
        (KeyRange((9,), None), True, False),  # an upper bound may be rounded
        (KeyRange((10,), None), False, False),
    ],
)
def test_a_file_with_the_keys_from_4_to_9(covered, may_hold, within):
    file = bounded((4,), (9,))
    order = order_of("long")
    assert (may_hold_some_of(file, covered, order), lies_within(file, covered, order)) == (may_hold, within)


def test_a_file_without_bounds_may_hold_any_key():
    unknown = bounded((), ())
    assert may_hold_some_of(unknown, KeyRange((1, "b"), (1, "a")), ORDER)
    assert lies_within(unknown, EVERYTHING, ORDER)
    assert not lies_within(unknown, KeyRange(None, (2, "a")), ORDER)


def test_a_bound_of_the_leading_column_alone_does_not_reach_a_whole_key():
    assert not lies_within(bounded((1,), (1,)), KeyRange(None, (1, "a")), ORDER)
    assert lies_within(bounded((1,), (1,)), KeyRange(None, (1,)), ORDER)


def test_a_bound_is_full_if_it_has_a_value_for_each_column():
    assert [is_full(bound, ORDER) for bound in ((), (1,), (1, None))] == [False, False, True]


def test_stored_rows_include_hidden_ones():
    assert FileStatistics(path="f", row_count=7, hidden_rows=3).stored_rows == 10
