"""The planner under a rate limit: how many rows a chunk gets, and how many files it takes to know."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.next_chunk import choose_chunk
from tests.builders import ExactKeys, order_of
from tests.unit.core.layouts import Layout, chunk_of, ordered, plan_of

# --- rate limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_limit", [None, 100, 101, 10**18])
def test_all_that_is_left_is_one_chunk_without_an_upper_bound(rate_limit):
    """docs/concepts/rules.md#the-last-chunk-has-no-upper-bound: no key is read to find this out."""
    plan, rows, read = Layout(ordered(10, 10)).plan(None, rate_limit)
    assert chunk_of(plan) == KeyRange(None, None)
    assert (rows, read) == (100, 0)


def test_rows_that_fit_by_statistics_are_read_to_the_end_without_reading_keys():
    """The file that ends at the position counts, too. The rows still fit."""
    plan, rows, read = Layout(ordered(10, 10)).plan((9,), 100)
    assert (chunk_of(plan), rows, read) == (KeyRange((9,), None), 90, 0)


def test_rows_that_fit_by_their_keys_are_read_to_the_end():
    """Statistics also count the rows before the position, and with these the rows don't fit."""
    plan, rows, read = Layout(ordered(10, 10)).plan((4,), 95)
    assert (chunk_of(plan), rows, plan.rows, plan.completes) == (KeyRange((4,), None), 95, 95, True)
    assert read == 1


@pytest.mark.parametrize("rate_limit", [0, -1])
def test_a_barrier_that_reads_nothing_has_no_chunk_to_plan(rate_limit):
    with pytest.raises(ValueError, match="at least 1 to plan a chunk"):
        Layout([[1]]).plan(None, rate_limit)


@pytest.mark.parametrize("rate_limit", [None, 1, 100])
def test_an_empty_upstream_is_completed_by_its_first_chunk(rate_limit):
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    plan, rows, read = Layout([]).plan(None, rate_limit)
    assert chunk_of(plan) == KeyRange(None, None)
    assert (rows, read, plan.scanned_files, plan.warnings) == (0, 0, 0, ())


def test_a_one_row_upstream_is_completed_at_the_smallest_rate_limit():
    """docs/concepts/rules.md#upstreams-without-rows-and-of-one-row."""
    assert Layout([[7]]).backfill(1) == [(1, 0)]


def test_a_rate_limit_of_one_reads_one_row_after_the_other():
    """I4: however small the rate limit."""
    rows = [rows for rows, _ in Layout([[1, 5, 9], [2, 3], [4]]).backfill(1)]
    assert rows == [1] * 6


def test_the_last_chunk_may_be_smaller_but_not_larger():
    assert [rows for rows, _ in Layout(ordered(10, 10)).backfill(30)] == [30, 30, 30, 10]


# --- layouts in key order -------------------------------------------------------------------------


def test_cuts_at_file_bounds_read_no_key():
    chunks = Layout(ordered(100, 10)).backfill(100)
    assert [rows for rows, _ in chunks] == [100] * 10
    assert max(read for _, read in chunks) <= 1, "at most the file that ends at the position"


def test_a_bound_that_fills_nine_tenths_is_taken_without_reading_more():
    plan, rows, read = Layout(ordered(100, 10)).plan(None, 98)
    assert (chunk_of(plan).up_to, rows, read) == ((89,), 90, 0)
    plan, rows, read = Layout(ordered(100, 10)).plan(None, 109)
    assert (rows, read) == (100, 0)


def test_a_bound_that_fills_exactly_nine_tenths_is_taken_too():
    plan, rows, read = Layout([range(90), range(90, 200)]).plan(None, 100)
    assert (chunk_of(plan).up_to, rows, read) == ((89,), 90, 0)


def test_rows_at_or_before_a_bound_count_also_in_files_that_end_after_it():
    """The rate limit is a cap."""
    layout = Layout([[0, 1, 2, 3, 4, 6, 7, 8, 9, 10], [5, 12], range(20, 30)])
    plan, rows, _ = layout.plan(None, 10)
    assert (chunk_of(plan).up_to, rows) == ((9,), 10)


def test_small_files_with_keys_from_everywhere_do_not_make_the_planner_read_the_large_ones():
    """Each commit that updates rows writes such a file. The large files stay in key order."""
    updated = [[3, 250, 777, 999], [11, 512, 640], [0, 444, 998]]
    moved = {key for file in updated for key in file}
    large = [[key for key in file if key not in moved] for file in ordered(10, 100)]
    layout, after = Layout([*large, *updated]), None
    for end in range(99, 999, 100):
        plan, rows, read = layout.plan(after, 100)
        assert (chunk_of(plan).up_to, rows) == ((end,), 100)
        assert read <= len(updated) + 1, "those files, and at most the file that ends at the position"
        after = chunk_of(plan).up_to


@pytest.mark.slow
@pytest.mark.parametrize("rate_limit", [1, 7, 19, 33, 50, 99, 150])
@pytest.mark.parametrize("size", [10, 50])
def test_ordered_files_are_read_around_the_boundary_only(rate_limit, size):
    """A 10 times larger upstream costs the same per epoch: the first and the last file of the chunk are read."""
    for files in (12, 120):
        layout, after = Layout(ordered(files, size)), None
        for _ in range(5):
            plan, rows, read = layout.plan(after, rate_limit)
            assert read <= 2
            assert 0.9 * rate_limit <= rows <= rate_limit or chunk_of(plan).up_to is None
            after = chunk_of(plan).up_to
            if after is None:
                break


def test_the_files_of_a_chunk_are_all_that_is_scanned():
    plan, _, _ = Layout(ordered(100, 10)).plan((499,), 100)
    # The file that ends exactly at the position is kept, since bounds may be rounded.
    assert (plan.scanned_files, plan.scanned_rows, plan.scanned_bytes) == (11, 110, 1100)
    assert plan.warnings == ()


def test_a_chunk_of_two_ranges_scans_the_files_of_both_and_a_shared_one_once():
    layout = Layout(ordered(100, 10))
    ranges = [KeyRange((4,), (35,)), KeyRange((37,), (52,))]
    index = ExactKeys(layout.keys, layout.order)
    plan = choose_chunk(layout.files, unread=ranges, rate_limit=None, order=layout.order, keys=index)
    assert plan.ranges == tuple(ranges)
    assert (plan.scanned_files, plan.scanned_rows) == (6, 60)


def test_descending_keys_are_read_from_the_largest_on():
    layout = Layout(ordered(10, 10), order=order_of(("long", True)))
    plan, rows, read = layout.plan(None, 20)
    assert (chunk_of(plan).up_to, rows, read) == ((80,), 20, 0)
    assert [rows for rows, _ in layout.backfill(20)] == [20] * 5


def test_nulls_come_first_in_both_directions():
    for direction in (False, True):
        layout = Layout([[1, None], [2, 3]], order=order_of(("long", direction)))
        plan, rows, _ = layout.plan(None, 1)
        assert (chunk_of(plan).up_to, rows) == ((None,), 1)
        assert [rows for rows, _ in layout.backfill(1)] == [1] * 4


def test_a_composite_key_with_one_leading_value_is_cut_by_the_other_columns():
    layout = Layout(
        [[("a", i) for i in range(f * 10, f * 10 + 10)] for f in range(5)], order=order_of("string", "long")
    )
    chunks = layout.backfill(15)
    assert [rows for rows, _ in chunks] == [15, 15, 15, 5]
    assert max(read for _, read in chunks) <= 2


# --- determinism ----------------------------------------------------------------------------------


def test_the_order_of_the_files_in_the_log_does_not_change_the_plan():
    """I2."""
    layout = Layout([range(f, 500, 7) for f in range(7)])
    plans = [
        layout.plan(None, 60, files)[0]
        for files in (layout.files, layout.files[::-1], layout.files[3:] + layout.files[:3])
    ]
    assert all(one == other for one, other in pairwise(plans))


# --- ranges ---------------------------------------------------------------------------------------


def test_ranges_are_read_one_after_the_other_under_one_rate_limit():
    layout = Layout(ordered(10, 10))
    unread = [KeyRange((9,), (19,)), KeyRange((49,), (59,)), KeyRange((79,), None)]
    plan, rows = plan_of(layout, unread, 15)
    assert (plan.ranges, rows, plan.completes) == ((unread[0], KeyRange((49,), (54,))), 15, False)
    plan, rows = plan_of(layout, unread, 20)
    assert (plan.ranges, rows, plan.completes) == (tuple(unread[:2]), 20, False)
    plan, rows = plan_of(layout, unread, 40)
    assert (plan.ranges, rows, plan.completes) == (tuple(unread), 40, True)


def test_a_cut_at_a_files_bound_ends_the_chunk():
    """I1: rows after the cut are read later, so none of them may be read now."""
    unread = [KeyRange(None, (49,)), KeyRange((79,), None)]
    plan, rows = plan_of(Layout(ordered(10, 10)), unread, 21)
    assert (plan.ranges, rows, plan.rows, plan.completes) == ((KeyRange(None, (19,)),), 20, 20, False)


def test_a_file_that_begins_with_the_position_has_a_row_that_was_read():
    unread = [KeyRange((5,), (7,)), KeyRange((8,), None)]
    plan, rows = plan_of(Layout([[5, 6, 7], [8, 9, 10]]), unread, 3)
    assert (plan.ranges, rows, plan.rows) == ((unread[0], KeyRange((8,), (9,))), 3, 3)


def test_ranges_without_rows_are_passed_on_the_way():
    """A vnode may have no rows; it must not cost an epoch."""
    layout = Layout([range(10), range(90, 100)])
    unread = [KeyRange((20,), (30,)), KeyRange((40,), (50,)), KeyRange((89,), None)]
    plan, rows = plan_of(layout, unread, 3)
    assert (plan.ranges, rows) == ((*unread[:2], KeyRange((89,), (92,))), 3)


@pytest.mark.parametrize("rate_limit", [None, 1, 100])
def test_nothing_unread_is_a_chunk_without_ranges(rate_limit):
    plan, rows = plan_of(Layout(ordered(2, 10)), [], rate_limit)
    assert (plan.ranges, rows, plan.rows, plan.completes, plan.scanned_files) == ((), 0, 0, True, 0)


def test_a_range_with_bounds_inside_files_is_counted_to_the_row():
    layout = Layout([range(0, 100, 2), range(1, 100, 2)])
    unread = [KeyRange((10,), (20,)), KeyRange((30,), (40,))]
    plan, rows = plan_of(layout, unread, 12)
    assert (plan.ranges, rows, plan.rows) == ((unread[0], KeyRange((30,), (32,))), 12, 12)
