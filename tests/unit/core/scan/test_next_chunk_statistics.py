"""The planner on layouts of which the files' statistics say little."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.next_chunk import SCAN_FACTOR
from tests.builders import order_of
from tests.unit.core.layouts import Layout, chunk_of, leading, ordered, without_statistics


def test_sparse_and_skewed_keys_inside_a_file_still_keep_the_rate_limit():
    """Interpolating between a file's bounds would read one row in one chunk and 999 in another."""
    layout = Layout([[*range(999), 10**15], range(10**15 + 1, 10**15 + 1000)])
    chunks = layout.backfill(100)
    assert all(90 <= rows <= 100 for rows, _ in chunks[:-1])
    assert sum(rows for rows, _ in chunks) == 1999


def test_files_in_random_order_keep_the_rate_limit_and_are_warned_of():
    files = [range(f, 2000, 20) for f in range(20)]
    layout = Layout(files)
    chunks = layout.backfill(100)
    assert [rows for rows, _ in chunks] == [100] * 20
    plan, _, read = layout.plan(None, 100)
    assert read == 20
    assert len(plan.warnings) == 1
    assert "must scan 20 of 20 files (2000 rows) to read 100 rows" in plan.warnings[0]
    assert "rewrite the upstream in key order" in plan.warnings[0]


def test_the_warning_comes_only_where_the_scan_is_much_larger_than_the_chunk():
    """Twenty files of a hundred rows; two of them may begin and end the chunk."""
    enough = (2000 - 2 * 100) // SCAN_FACTOR
    for rate_limit, warned in ((100, True), (enough - 1, True), (enough, False), (5000, False), (None, False)):
        plan, _, _ = Layout([range(f, 2000, 20) for f in range(20)]).plan(None, rate_limit)
        assert bool(plan.warnings) is warned, rate_limit


def test_the_last_chunk_is_not_warned_of():
    """No later chunk could become cheaper by another layout."""
    layout = Layout([range(f, 2000, 20) for f in range(20)])
    before, last = (layout.plan(after, 100)[0] for after in ((1898,), (1899,)))
    assert (before.completes, len(before.warnings)) == (False, 1)
    assert (last.completes, last.warnings) == (True, ())


def test_files_without_statistics_are_counted_exactly():
    layout = Layout(ordered(5, 10), statistics=without_statistics)
    assert [rows for rows, _ in layout.backfill(15)] == [15, 15, 15, 5]


def test_statistics_of_the_leading_column_alone_find_the_files():
    layout = Layout(
        [[(f, i) for i in range(10)] for f in range(50)], order=order_of("long", "long"), statistics=leading
    )
    chunks = layout.backfill(20)
    assert all(rows == 20 for rows, _ in chunks)
    assert max(read for _, read in chunks) <= 4, "files around the two boundaries, not all fifty"


def test_a_file_of_which_the_leading_column_alone_is_known_may_begin_before_any_key_with_it():
    """The rate limit is a cap, at bounds of other files and inside of them."""
    order = order_of("long", "long")
    at_a_bound = Layout([[(1, 0), (1, 5)], [(1, 3), (1, 9)]], order=order)
    at_a_bound.files[1] = leading(at_a_bound.files[1])
    plan, rows, _ = at_a_bound.plan(None, 2)
    assert (chunk_of(plan).up_to, rows) == ((1, 3), 2)
    inside = Layout([[(0, 0), (1, 5), (2, 0)], [(1, 3), (1, 9)]], order=order)
    inside.files[1] = leading(inside.files[1])
    plan, rows, _ = inside.plan(None, 2)
    assert (chunk_of(plan).up_to, rows) == ((1, 3), 2)


def test_rows_that_statistics_count_but_that_are_deleted_do_not_stop_a_backfill():
    """With deletion vectors the log counts rows that are gone."""

    def overcounted(file):
        return FileStatistics(path=file.path, row_count=10 * file.row_count, lower=file.lower, upper=file.upper)

    chunks = Layout(ordered(10, 10), statistics=overcounted).backfill(25)
    assert sum(rows for rows, _ in chunks) == 100
    assert max(rows for rows, _ in chunks) <= 25


@pytest.mark.parametrize(
    ("files", "counted", "rate_limit", "up_to", "needed"),
    [
        # As many rows as the first file has; its end is not known.
        ([[(f, i) for i in range(10)] for f in range(5)], 1, 10, (0, 9), 1),
        # The first file has fewer rows than the log says, the second one has the rest.
        ([[(f, i) for i in range(10)] for f in range(5)], 10, 15, (1, 4), 2),
        # The second file begins before the end of the first one.
        ([[(0, 0), (0, 1), (0, 2), (2, 0)], [(1, 5), (1, 6)], [(3, 0), (3, 1)]], 1, 4, (1, 5), 2),
    ],
)
def test_no_file_is_read_that_begins_after_the_cut(files, counted, rate_limit, up_to, needed):
    def known(file):
        return replace(leading(file), row_count=counted * file.row_count)

    plan, rows, read = Layout(files, order=order_of("long", "long"), statistics=known).plan(None, rate_limit)
    assert (chunk_of(plan).up_to, rows, read) == (up_to, rate_limit, needed)


def test_small_files_inside_the_range_of_a_large_one_do_not_shrink_the_chunks():
    """I4: finished within about rows ÷ rate limit epochs. The files are a compacted one and later appends."""
    layout = Layout([range(0, 100_000, 1000), *([i] for i in range(5, 1000, 5))])
    rows = [rows for rows, _ in layout.backfill(100)]
    assert len(rows) <= math.ceil(sum(rows) / 90), rows
