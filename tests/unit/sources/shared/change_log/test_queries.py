"""A change log is asked without a JVM, and says what it does not know."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from airflow_backfill_provider.sources.shared.change_log.queries import LoggedColumns
from tests.unit.sources.shared.change_log.histories import change, minute


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [
        ("5", 0, 99, True),
        ("5", 14, 15, True),
        ("5", 15, 24, False),
        ("5", 24, 25, True),
        ("5", 25, 27, False),
        ("5", 27, 28, True),
        ("5", 28, 99, False),
        ("5", 0, 14, False),
        ("6", 14, 15, True),
        ("6", 15, 24, False),
        ("7", 0, 99, False),
        # A mark is of no table, and of no rows.
        ("", 0, 99, False),
    ],
)
def test_a_window_has_changes_if_rows_of_the_table_changed_in_it(log, of, after, up_to, expected):
    assert log.queries.has_changes(of, after, up_to) is expected


@pytest.mark.parametrize(
    ("of", "after", "expected"),
    [("5", 10, 15), ("5", 14, 15), ("5", 15, 25), ("5", 25, 28), ("5", 28, None), ("6", 15, 25), ("7", 0, None)],
)
def test_the_oldest_change_of_a_table_after_an_offset(log, of, after, expected):
    assert log.queries.changed_since(of, after) == (None if expected is None else minute(expected))


def test_columns_alone_are_no_change(empty):
    empty.land([change(15, kind=LoggedKind.COLUMNS, new={"id": "long"})], after=10, through=20)
    assert not empty.queries.has_changes("5", 0, 99)
    assert empty.queries.changed_since("5", 0) is None


@pytest.mark.parametrize("kind", ["insert", "update", "delete", "truncate"])
def test_each_change_of_rows_is_a_change(empty, kind):
    empty.land([change(15, kind=LoggedKind(kind))], after=10, through=20)
    assert empty.queries.has_changes("5", 10, 20)


@pytest.mark.parametrize(
    ("offset", "expected"), [(14, None), (15, 15), (19, 15), (20, 20), (24, 20), (28, 28), (99, 28)]
)
def test_an_offset_was_committed_with_the_newest_transaction_up_to_it(log, offset, expected):
    assert log.queries.committed_at(offset) == (None if expected is None else minute(expected))


@pytest.mark.parametrize(("at", "expected"), [(14.9, None), (15, 15), (19.9, 15), (20, 20), (99, 28)])
def test_the_offset_at_an_instant_is_the_newest_one_that_was_committed_then(log, at, expected):
    assert log.queries.offset_at(minute(at)) == expected
    assert log.queries.offset_at(minute(at).astimezone(dt.timezone(dt.timedelta(hours=5)))) == expected


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [
        ("5", 0, 99, [15, 28]),
        ("5", 14, 15, [15]),
        ("5", 15, 28, [28]),
        ("5", 15, 27, []),
        ("5", 28, 99, []),
        ("6", 0, 99, []),
    ],
)
def test_the_columns_within_a_window(log, of, after, up_to, expected):
    known = {15: {"id": "long"}, 28: {"id": "long", "note": "<point>"}}
    assert log.queries.columns_within(of, after, up_to) == [
        LoggedColumns(offset, known[offset], {}) for offset in expected
    ]


def test_columns_of_one_transaction_come_in_its_order(empty):
    """The last ones are in force after it, wherever they are stored."""
    numbers = [7, 3, 11, 1, 9, 5, 2]
    rows = [change(15, number, LoggedKind.COLUMNS, new={f"c{number}": "long"}) for number in numbers]
    empty.land(rows, after=10, through=20)
    assert [list(found.types) for found in empty.queries.columns_within("5", 10, 20)] == [
        [f"c{n}"] for n in sorted(numbers)
    ]


@pytest.mark.parametrize(
    ("of", "after", "up_to", "expected"),
    [("5", 0, 99, (25, 2)), ("5", 24, 25, (25, 2)), ("5", 25, 99, None), ("6", 0, 99, (25, 3)), ("7", 0, 99, None)],
)
def test_the_last_truncation_within_a_window(log, of, after, up_to, expected):
    assert log.queries.truncated_within(of, after, up_to) == expected


@pytest.mark.parametrize(
    ("transactions", "up_to", "expected"),
    [
        ([1_025, 1_015], 99, 15),
        ([1_025], 99, 25),
        ([1_025, 1_028], 25, 25),
        ([1_025], 24, None),
        ([1], 99, None),
        ([], 99, None),
        ({1_020: 0}, 99, 20),
    ],
)
def test_the_first_offset_of_some_transactions(log, transactions, up_to, expected):
    assert log.queries.earliest_of(transactions, up_to=up_to) == expected


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [([(1_015, 1_025)], 15), ([(1_016, 1_026)], 20), ([(1_026, 1_027), (5, 1)], None), ([], None)],
)
def test_the_first_offset_of_ranges_of_transactions(log, ranges, expected):
    assert log.queries.earliest_of([], up_to=99, and_within=ranges) == expected


def test_the_newest_mark_with_a_text_counts(empty):
    """It covers what the readers saw, whichever attempt wrote it."""
    rows = [change(offset, kind=LoggedKind.MARK, of="", new={"text": "read"}) for offset in (12, 15)]
    empty.land(rows, after=10, through=20)
    assert empty.queries.mark("read") == 15


def test_all_transactions_are_there_after_the_beginning_and_after_a_gap(log):
    assert log.queries.complete_after() == 10
    log.skip_to(50, if_before=31, why="lost", at=minute(50))
    assert log.queries.complete_after() == 50


def test_transactions_that_changed_rows_are_listed(log):
    assert log.queries.transactions_within(10, 30) == {(15, 1_015), (28, 1_028)}
    assert log.queries.transactions_within(15, 27) == set()
