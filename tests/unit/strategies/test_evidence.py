"""The facts that a strategy is chosen by, from the statistics of files alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.strategies.evidence import overlap_of
from tests.builders import file_of, order_of

LONG = order_of("long")


def file(lower, upper, rows=10, path="f"):
    return FileStatistics(path=path, row_count=rows, size=rows, lower=(lower,), upper=(upper,))


def unknown(rows=10):
    return FileStatistics(path="u", row_count=rows)


@pytest.mark.parametrize(
    ("files", "overlap"),
    [
        ([], 0),
        ([file(0, 9)], 0),
        ([unknown()], 0),
        ([file(0, 9), file(10, 19), file(20, 29)], 0),
        ([file(0, 99), file(0, 99), file(0, 99)], 1),
        ([unknown(), unknown()], 1),
        ([unknown(), file(0, 9)], 1),
        ([file(0, 9), file(9, 19)], 1),
        ([file(0, 9), file(5, 14), file(10, 19)], 2 / 3),
        ([file(None, 3), file(None, 9)], 1),
        ([file(None, None), file(0, 9)], 0),
        ([file(0, 9, rows=0), file(0, 9, rows=0)], 0),
        ([file(0, 9), file(5, 5, rows=0)], 0),
    ],
)
def test_overlap_is_the_share_of_other_rows_in_files_that_reach_across_ones_own(files, overlap):
    assert overlap_of(files, LONG) == pytest.approx(overlap)


def test_overlap_follows_the_keys_direction():
    descending = order_of(("long", True))
    files = [file_of("a", [(1,), (2,)], descending), file_of("b", [(3,), (4,)], descending)]
    assert overlap_of(files, descending) == 0


FILES = st.lists(
    st.builds(
        lambda ends, rows: file(min(ends), max(ends), rows) if ends else unknown(rows),
        st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(FILES)
def test_overlap_agrees_with_looking_at_every_pair_of_files(files):
    def overlapping(one, other):
        return not one.lower or not other.lower or (one.lower <= other.upper and other.lower <= one.upper)

    beside = sum(
        one.row_count * other.row_count
        for i, one in enumerate(files)
        for j, other in enumerate(files)
        if i != j and overlapping(one, other)
    )
    others = sum(
        one.row_count * other.row_count for i, one in enumerate(files) for j, other in enumerate(files) if i != j
    )
    assert overlap_of(files, LONG) == pytest.approx(beside / others if others else 0)
