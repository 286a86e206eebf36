"""How many rows a job is about, by the statistics of files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from airflow_backfill_provider.core.job.row_estimate import rows_within
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from tests.builders import file_of, order_of

LONG = order_of("long")


def estimate(files, covered, order=LONG):
    return rows_within(files, covered, order)


def dense(first, last):
    """A file with every whole number."""
    return file_of(f"{first}", [(number,) for number in range(first, last + 1)], LONG)


FILES = [dense(1, 100), dense(101, 200), dense(201, 300)]


@pytest.mark.parametrize("after", [None, (0,), (1,), (50,), (100,), (101,), (250,), (300,), (999,)])
@pytest.mark.parametrize("up_to", [None, (1,), (50,), (100,), (199,), (300,), (999,)])
def test_dense_keys_are_counted_to_the_row(after, up_to):
    begin, end = (after or (0,))[0], (up_to or (999,))[0]
    assert estimate(FILES, KeyRange(after, up_to)) == sum(begin < key <= end for key in range(1, 301))


def test_all_keys_are_all_rows_whatever_the_statistics_say():
    assert estimate([*FILES, FileStatistics(path="x", row_count=7)], EVERYTHING) == 307
    assert estimate([], KeyRange((1,), None)) == 0


def test_files_without_statistics_are_like_the_others():
    unknown = FileStatistics(path="x", row_count=300)
    assert estimate([*FILES, unknown], KeyRange((100,), (200,))) == 200
    assert estimate([unknown], KeyRange((100,), (200,))) == 300, "nothing says that it is less"


def test_a_file_with_null_keys_is_like_the_others():
    nulls = FileStatistics(path="x", row_count=300, lower=(None,), upper=(300,))
    assert estimate([*FILES, nulls], KeyRange((100,), (200,))) == 200
    assert estimate([nulls], KeyRange((300,), None)) == 0
    only = FileStatistics(path="x", row_count=10, lower=(None,), upper=(None,))
    assert estimate([only], KeyRange(None, (5,))) == 10
    assert estimate([only], KeyRange((None,), None)) == 0


def test_a_file_with_statistics_of_only_one_end_is_like_the_others():
    for bounds in ({"lower": (1,)}, {"upper": (300,)}):
        one_end = FileStatistics(path="x", row_count=300, **bounds)
        assert estimate([*FILES, one_end], KeyRange((100,), (200,))) == 200
        assert estimate([one_end], KeyRange((100,), (200,))) == 300


@pytest.mark.parametrize(("up_to", "rows"), [(1, 2), (2, 3)])
def test_a_share_of_a_row_is_rounded_to_the_nearest(up_to, rows):
    """Of 5 rows these are 1.67 and 3.33."""
    assert estimate([FileStatistics(path="x", row_count=5, lower=(1,), upper=(3,))], KeyRange(None, (up_to,))) == rows


@pytest.mark.parametrize(("kind", "end"), [("string", "\0"), ("binary", b"\0")])
def test_keys_that_differ_only_in_zeros_at_the_end_count_as_the_last_one(kind, end):
    begin = end[:0]
    file = FileStatistics(path="x", row_count=10, lower=(begin,), upper=(end,))
    assert estimate([file], KeyRange(None, (begin,)), order_of(kind)) == 10
    assert estimate([file], KeyRange((begin,), None), order_of(kind)) == 0


def test_a_descending_key():
    order = order_of(("long", True))
    files = [file_of("a", [(number,) for number in range(1, 101)], order)]
    assert estimate(files, KeyRange((90,), (50,)), order) == 40
    assert estimate(files, KeyRange(None, (91,)), order) == 10
    assert estimate(files, KeyRange((200,), (1,)), order) == 100


DAY = dt.timedelta(days=1)
NOON = dt.datetime(2026, 1, 1, 12)


@pytest.mark.parametrize(
    ("kind", "first", "last", "up_to", "rows"),
    [
        ("decimal(10,2)", Decimal("0.00"), Decimal("10.00"), Decimal("2.50"), 25),
        ("date", dt.date(2026, 1, 1), dt.date(2026, 1, 10), dt.date(2026, 1, 3), 30),
        (
            "timestamp",
            NOON.replace(tzinfo=dt.UTC),
            (NOON + DAY).replace(tzinfo=dt.UTC),
            dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
            50,
        ),
        ("timestamp_ntz", NOON, NOON + DAY, NOON + DAY / 4, 25),
        ("timestamp_ntz", NOON, NOON + 4 * dt.timedelta.resolution, NOON + dt.timedelta.resolution, 25),
        ("string", "order-0", "order-8", "order-2", 25),
        ("string", "é", "ù", "ñ", 50),
        ("string", "x" * 40 + "a", "x" * 40 + "c", "x" * 40 + "b", 50),
        ("binary", b"\x00", b"\xff", b"\x80", 50),
        ("boolean", False, True, False, 50),
    ],
)
def test_every_type_is_measured(kind, first, last, up_to, rows):
    file = FileStatistics(path="a", row_count=100, lower=(first,), upper=(last,))
    assert estimate([file], KeyRange(None, (up_to,)), order_of(kind)) == pytest.approx(rows, abs=2)


def test_later_key_columns_count_where_the_first_one_is_the_same():
    order = order_of("string", "long")
    files = [file_of(region, [(region, number) for number in range(1, 101)], order) for region in ("asia", "eu", "us")]
    assert estimate(files, KeyRange(("asia",), ("eu",)), order) == 100, "a bound stands for all that begin with it"
    assert estimate(files, KeyRange(("asia", 90), ("eu", 20)), order) == 30
    assert estimate(files, KeyRange(("eu", 10), ("eu", 20)), order) == 10
