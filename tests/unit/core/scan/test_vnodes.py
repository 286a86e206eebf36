"""Sets of vnodes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.vnodes import format_vnodes, parse_vnodes


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ([], set()),
        (3, {3}),
        ("3", {3}),
        ([3, "5"], {3, 5}),
        ("0-2", {0, 1, 2}),
        (" 0 - 2 , 7 ", {0, 1, 2, 7}),
        (["0-1, 4", 2], {0, 1, 2, 4}),
        (["2-4", "3-5", 3], {2, 3, 4, 5}),
        ("0-0", {0}),
        ("0-7", set(range(8))),
        (("7",), {7}),
    ],
)
def test_numbers_and_ranges_may_be_written_in_any_way(written, meant):
    assert parse_vnodes(written, 8) == meant


@pytest.mark.parametrize(
    "written", ["", " ", "8", 8, -1, "-1", "0-8", "5-3", "a", "0..3", "1,,2", "1,", "1-", "-3", "1-2-3", "1.5", [""]]
)
def test_a_text_that_names_no_vnode_of_the_job_is_refused_with_what_is_allowed(written):
    """I6."""
    with pytest.raises(InvalidJobError, match=r"^vnodes: .*numbers from 0 to 7, and ranges such as 0-15"):
        parse_vnodes(written, 8)


@pytest.mark.parametrize(
    ("vnodes", "text"),
    [([], ""), ([3], "3"), ([2, 1, 0], "0-2"), ([0, 2, 3, 4, 7, 7], "0, 2-4, 7"), (range(256), "0-255")],
)
def test_neighbours_are_written_as_ranges(vnodes, text):
    assert format_vnodes(vnodes) == text


@settings(max_examples=40)
@given(st.sets(st.integers(0, 40), min_size=1))
def test_what_is_written_is_read_back(vnodes):
    assert parse_vnodes(format_vnodes(vnodes), 41) == vnodes
