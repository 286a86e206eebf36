"""What is read ahead next, in examples; random ones are in ``tests/property/test_read_ahead_ranges.py``."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.strategies.cdc.next_chunk import MOST_CONNECTIONS, ranges_to_read, rows_left
from tests.builders import order_of

ID = order_of("long")
DOWN = order_of(("long", True))
TWO = order_of("long", "string")


def bounds_of(sample, *, begin=None, within=EVERYTHING, rows=None, rows_of_sample=10.0, order=ID):
    """Return the bounds of the ranges, from the first to the last; of one column, its values."""
    ranges = ranges_to_read(
        begin=begin, within=within, sample=sample, rows_of_sample=rows_of_sample, rows=rows, order=order
    )
    assert all(before.up_to == after.after for before, after in pairwise(ranges))
    bounds = [ranges[0].after, *(covered.up_to for covered in ranges)]
    return [bound[0] if bound and len(bound) == 1 else bound for bound in bounds]


def ids(*values):
    return [(value,) for value in values]


@pytest.mark.parametrize(
    ("sample", "given", "expected"),
    [
        ([], {}, [None, None]),
        ([], {"rows": 1}, [None, None]),
        ([], {"begin": (5,), "within": KeyRange(None, (9,))}, [5, 9]),
        (ids(10, 20, 30), {}, [None, 10, 20, 30, None]),
        (ids(10, 20, 30), {"begin": (10,)}, [10, 20, 30, None]),
        (ids(10, 20, 30), {"begin": (11,)}, [11, 20, 30, None]),
        (ids(10, 20, 30), {"begin": (30,)}, [30, None]),
        (ids(10, 20, 30), {"within": KeyRange(None, (20,))}, [None, 10, 20]),
        (ids(10, 20, 30), {"within": KeyRange(None, (19,))}, [None, 10, 19]),
        (ids(10, 20, 30), {"begin": (12,), "within": KeyRange((12,), (15,))}, [12, 15]),
        # A limit: whole parts of the sample, rounded, and at least one.
        (ids(10, 20, 30, 40), {"rows": 20}, [None, 10, 20]),
        (ids(10, 20, 30, 40), {"rows": 14}, [None, 10]),
        (ids(10, 20, 30, 40), {"rows": 16}, [None, 10, 20]),
        (ids(10, 20, 30, 40), {"rows": 1}, [None, 10]),
        (ids(10, 20, 30, 40), {"rows": 1, "begin": (10,)}, [10, 20]),
        (ids(10, 20, 30, 40), {"rows": 1, "rows_of_sample": 1e9}, [None, 10]),
        (ids(10, 20, 30, 40), {"rows": 2, "rows_of_sample": 0.0}, [None, 10, 20]),
        # If as many parts are left, then to the end: rows may have come after the last key of the sample.
        (ids(10, 20, 30, 40), {"rows": 39}, [None, 10, 20, 30, 40, None]),
        (ids(10, 20, 30, 40), {"rows": 10**9}, [None, 10, 20, 30, 40, None]),
        (ids(10, 20), {"rows": 10, "begin": (10,), "within": KeyRange(None, (20,))}, [10, 20]),
    ],
)
def test_ranges_are_cut_at_keys_of_the_sample(sample, given, expected):
    assert bounds_of(sample, **given) == expected


def test_a_key_that_descends_is_read_from_its_largest_value_on():
    assert bounds_of(ids(30, 20, 10), order=DOWN) == [None, 30, 20, 10, None]
    assert bounds_of(ids(30, 20, 10), order=DOWN, begin=(25,), within=KeyRange((25,), (10,))) == [25, 20, 10]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, [1, (2, "b"), (2, "d"), (2, "f"), 2]),
        (20, [1, (2, "b"), (2, "d")]),
        (10, [1, (2, "b")]),
        (99, [1, (2, "b"), (2, "d"), (2, "f"), 2]),
    ],
)
def test_a_job_of_all_keys_that_begin_with_a_value_is_cut_within_them(rows, expected):
    """Such as one tenant's: its keys lie between two bounds that are shorter than a key."""
    sample = [(1, "a"), (1, "z"), (2, "b"), (2, "d"), (2, "f"), (3, "a")]
    assert bounds_of(sample, begin=(1,), within=KeyRange((1,), (2,)), rows=rows, order=TWO) == expected


@pytest.mark.parametrize("size", [7, 8, 9, 16, 17, 100, 1000])
def test_a_large_sample_is_cut_into_ranges_of_about_one_size(size):
    bounds = bounds_of(ids(*range(size)))
    assert len(bounds) - 1 <= MOST_CONNECTIONS + 1
    steps = {after - before for before, after in pairwise(bounds[1:-1])}
    assert steps == {-(-size // MOST_CONNECTIONS)}


def file_of(rows, upper):
    return FileStatistics(path=str(rows), row_count=rows, upper=upper)


@pytest.mark.parametrize(
    ("position", "left"),
    [(None, 111), ((0,), 111), ((9,), 111), ((10,), 110), ((19,), 110), ((20,), 100), ((30,), 0), ((31,), 0)],
)
def test_rows_are_left_in_files_that_end_after_the_view(position, left):
    files = [file_of(1, (10,)), file_of(10, (20,)), file_of(100, (30,))]
    assert rows_left(files, KeyRange(position, None), ID) == left
    assert rows_left([], KeyRange(position, None), ID) == 0


def test_rows_that_are_read_again_are_not_left() -> None:
    files = [file_of(1, (10,)), file_of(10, (20,)), file_of(100, (30,))]
    assert rows_left(files, KeyRange((10,), (20,)), ID) == 10
