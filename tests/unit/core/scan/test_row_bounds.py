"""How many rows some ranges may have, by the statistics of files."""

from __future__ import annotations

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.row_bounds import RowBounds, row_bounds
from tests.builders import order_of

LONG = order_of("long")
FILES = [
    FileStatistics(path="a", row_count=10, lower=(1,), upper=(10,)),
    FileStatistics(path="b", row_count=20, lower=(5,), upper=(30,)),
    FileStatistics(path="c", row_count=40),
]


def test_files_that_lie_inside_count_for_certain_and_others_perhaps():
    assert row_bounds(FILES, [KeyRange(None, (10,))], LONG, share=False) == RowBounds(10, 70)
    assert row_bounds(FILES, [KeyRange(None, (4,))], LONG, share=False) == RowBounds(0, 50)


def test_all_rows_of_the_whole_table_are_certain():
    assert row_bounds(FILES, [KeyRange(None, None)], LONG, share=False) == RowBounds(70, 70)


def test_no_rows_of_a_share_are_certain():
    assert row_bounds(FILES, [KeyRange(None, None)], LONG, share=True) == RowBounds(0, 70)


def test_a_number_lies_between_the_bounds_or_at_one():
    assert [rows in RowBounds(2, 4) for rows in (1, 2, 4, 5)] == [False, True, True, False]
