"""The planner on layouts that people have: how many rows a chunk gets, and how many files it takes to know."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.core.planner import SCAN_FACTOR, ChunkPlan, plan_chunk, plan_parts
from tests.builders import ExactKeys, file_of, order_of

LONG = order_of("long")


class Layout:
    """Data files of a table, and planning over them."""

    def __init__(self, files, order=LONG, statistics=None):
        self.keys = {
            f"part-{i:03}": [key if isinstance(key, tuple) else (key,) for key in keys] for i, keys in enumerate(files)
        }
        self.order = order
        self.files = [file_of(path, keys, order) for path, keys in self.keys.items()]
        if statistics is not None:
            self.files = [statistics(file) for file in self.files]

    def plan(self, after, rate_limit, files=None):
        """Return the plan, the number of rows in its chunk, and how many files' keys were read for it."""
        index = ExactKeys(self.keys, self.order)
        plan = plan_chunk(
            self.files if files is None else files,
            unread=[KeyRange(after, None)],
            rate_limit=rate_limit,
            order=self.order,
            keys=index,
        )
        read = len(index.read)
        return plan, len(index.within(self.keys, *plan.ranges)), read

    def backfill(self, rate_limit):
        """Plan chunk after chunk to the end; return (rows, files read) of each."""
        after, chunks = None, []
        while True:
            plan, rows, read = self.plan(after, rate_limit)
            chunk = chunk_of(plan)
            assert chunk.after == after
            chunks.append((rows, read))
            assert plan.completes is (chunk.up_to is None)
            if plan.completes:
                return chunks
            assert after is None or self.order.compare(chunk.up_to, after) > 0
            after = chunk.up_to
            assert len(chunks) < 1000


def chunk_of(plan):
    """Return the one range of a plan."""
    (chunk,) = plan.ranges
    return chunk


def ordered(files, size, step=1):
    return [range(f * size * step, (f + 1) * size * step, step) for f in range(files)]


def leading(file):
    """Return a file of which the log knows bounds of the leading column alone."""
    return FileStatistics(path=file.path, row_count=file.row_count, lower=file.lower[:1], upper=file.upper[:1])


def without_statistics(file):
    return FileStatistics(path=file.path, row_count=file.row_count, size=file.size)


# --- rate limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_limit", [None, 100, 101, 10**18])
def test_all_that_is_left_is_one_chunk_without_an_upper_bound(rate_limit):
    """Design §5.4; and no key is read to know it."""
    plan, rows, read = Layout(ordered(10, 10)).plan(None, rate_limit)
    assert chunk_of(plan) == KeyRange(None, None)
    assert (rows, read) == (100, 0)


def test_what_fits_by_statistics_is_read_to_the_end_without_a_look_at_keys():
    """The file that ends at the position counts, too: with its rows it still fits."""
    plan, rows, read = Layout(ordered(10, 10)).plan((9,), 100)
    assert (chunk_of(plan), rows, read) == (KeyRange((9,), None), 90, 0)


def test_what_fits_by_its_keys_is_read_to_the_end():
    """Statistics count the rows before the position, too, and those make it too many."""
    plan, rows, read = Layout(ordered(10, 10)).plan((4,), 95)
    assert (chunk_of(plan), rows, plan.rows, plan.completes) == (KeyRange((4,), None), 95, 95, True)
    assert read == 1


@pytest.mark.parametrize("rate_limit", [0, -1])
def test_a_barrier_that_reads_nothing_has_no_chunk_to_plan(rate_limit):
    with pytest.raises(ValueError, match="at least 1 to plan a chunk"):
        Layout([[1]]).plan(None, rate_limit)


@pytest.mark.parametrize("rate_limit", [None, 1, 100])
def test_an_empty_upstream_is_completed_by_its_first_chunk(rate_limit):
    """Design §5.7."""
    plan, rows, read = Layout([]).plan(None, rate_limit)
    assert chunk_of(plan) == KeyRange(None, None)
    assert (rows, read, plan.scanned_files, plan.warnings) == (0, 0, 0, ())


def test_a_one_row_upstream_is_completed_at_the_smallest_rate_limit():
    """Design §5.8."""
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


def test_rows_of_files_that_end_just_behind_a_bound_count_where_they_lie_before_it():
    """The rate limit is a cap."""
    layout = Layout([[0, 1, 2, 3, 4, 6, 7, 8, 9, 10], [5, 12], range(20, 30)])
    plan, rows, _ = layout.plan(None, 10)
    assert (chunk_of(plan).up_to, rows) == ((9,), 10)


def test_small_files_with_keys_from_everywhere_do_not_make_the_planner_read_the_large_ones():
    """Each commit that updates rows leaves such a file; the large ones stay in key order."""
    updated = [[3, 250, 777, 999], [11, 512, 640], [0, 444, 998]]
    moved = {key for file in updated for key in file}
    large = [[key for key in file if key not in moved] for file in ordered(10, 100)]
    layout, after = Layout([*large, *updated]), None
    for end in range(99, 999, 100):
        plan, rows, read = layout.plan(after, 100)
        assert (chunk_of(plan).up_to, rows) == ((end,), 100)
        assert read <= len(updated) + 1, "those, and at most the file that ends at the position"
        after = chunk_of(plan).up_to


@pytest.mark.slow
@pytest.mark.parametrize("rate_limit", [1, 7, 19, 33, 50, 99, 150])
@pytest.mark.parametrize("size", [10, 50])
def test_ordered_files_are_read_around_the_boundary_only(rate_limit, size):
    """A 10 times larger upstream costs the same per epoch: the file that begins the chunk and the one that ends it."""
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
    plan = plan_chunk(layout.files, unread=ranges, rate_limit=None, order=layout.order, keys=index)
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


# --- layouts that statistics say little of --------------------------------------------------------


def test_sparse_and_skewed_keys_inside_a_file_still_keep_the_rate_limit():
    """Interpolating between a file's bounds would read one row here and 999 there."""
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
    """Nothing comes after it that another layout could make cheaper."""
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
    """Deletion vectors: the log counts rows that are gone."""

    def overcounted(file):
        return FileStatistics(path=file.path, row_count=10 * file.row_count, lower=file.lower, upper=file.upper)

    chunks = Layout(ordered(10, 10), statistics=overcounted).backfill(25)
    assert sum(rows for rows, _ in chunks) == 100
    assert max(rows for rows, _ in chunks) <= 25


@pytest.mark.parametrize(
    ("files", "counted", "rate_limit", "up_to", "needed"),
    [
        # As many as the first file has, whose end is not known.
        ([[(f, i) for i in range(10)] for f in range(5)], 1, 10, (0, 9), 1),
        # The first file has fewer than the log says, the second one has the rest.
        ([[(f, i) for i in range(10)] for f in range(5)], 10, 15, (1, 4), 2),
        # The second file begins before what the first one's keys alone would say.
        ([[(0, 0), (0, 1), (0, 2), (2, 0)], [(1, 5), (1, 6)], [(3, 0), (3, 1)]], 1, 4, (1, 5), 2),
    ],
)
def test_no_file_is_read_that_begins_behind_the_cut(files, counted, rate_limit, up_to, needed):
    def known(file):
        return replace(leading(file), row_count=counted * file.row_count)

    plan, rows, read = Layout(files, order=order_of("long", "long"), statistics=known).plan(None, rate_limit)
    assert (chunk_of(plan).up_to, rows, read) == (up_to, rate_limit, needed)


def test_small_files_inside_the_range_of_a_large_one_do_not_shrink_the_chunks():
    """I4: finished within about rows ÷ rate limit epochs. (A compacted file, and appends since then.)"""
    layout = Layout([range(0, 100_000, 1000), *([i] for i in range(5, 1000, 5))])
    rows = [rows for rows, _ in layout.backfill(100)]
    assert len(rows) <= math.ceil(sum(rows) / 90), rows


# --- determinism ----------------------------------------------------------------------------------


def test_two_planners_agree_in_whatever_order_the_log_lists_the_files():
    """I2."""
    layout = Layout([range(f, 500, 7) for f in range(7)])
    plans = [
        layout.plan(None, 60, files)[0]
        for files in (layout.files, layout.files[::-1], layout.files[3:] + layout.files[:3])
    ]
    assert all(one == other for one, other in pairwise(plans))


# --- ranges ---------------------------------------------------------------------------------------


def plan_of(layout, unread, rate_limit):
    """Plan over several ranges; return the plan and the number of rows in it."""
    index = ExactKeys(layout.keys, layout.order)
    plan = plan_chunk(layout.files, unread=unread, rate_limit=rate_limit, order=layout.order, keys=index)
    return plan, len(ExactKeys(layout.keys, layout.order).within(layout.keys, *plan.ranges))


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
    """I1: what comes behind the cut is read later, so nothing that lies behind it may be read now."""
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


# --- parts ----------------------------------------------------------------------------------------

BY_VNODE = order_of("integer", "long")


class Vnodes(Layout):
    """An arrangement of vnodes with so many rows each, in files of ten."""

    def __init__(self, *rows):
        keys = [(vnode, i) for vnode, count in enumerate(rows) for i in range(count)]
        super().__init__([keys[start : start + 10] for start in range(0, len(keys), 10)], order=BY_VNODE)

    def parts(self, unread, rate_limit):
        """Plan for some runs; return the plans, and the rows that each reads."""
        index = ExactKeys(self.keys, self.order)
        plans = plan_parts(self.files, unread=unread, rate_limit=rate_limit, order=self.order, keys=index)
        return plans, [len(ExactKeys(self.keys, self.order).within(self.keys, *plan.ranges)) for plan in plans]


def vnode(number, last=None):
    return KeyRange((number - 1,), (number if last is None else last,))


def test_runs_share_the_rate_limit_fairly():
    layout = Vnodes(100, 100, 100)
    plans, rows = layout.parts([[vnode(0)], [vnode(1)], [vnode(2)]], 60)
    assert rows == [20, 20, 20]
    assert not any(plan.completes for plan in plans)


def test_what_does_not_divide_evenly_goes_to_the_first_runs():
    _, rows = Vnodes(100, 100, 100).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 5)
    assert rows == [2, 2, 1]


def test_what_one_run_does_not_need_the_others_get():
    layout = Vnodes(100, 3, 100, 7)
    plans, rows = layout.parts([[vnode(0)], [vnode(1)], [vnode(2)], [vnode(3)]], 60)
    assert rows == [25, 3, 25, 7]
    assert [plan.completes for plan in plans] == [False, True, False, True]


@pytest.mark.parametrize(("stored", "read"), [((10, 20, 100), [10, 20, 30]), ((5, 18, 100), [5, 18, 37])])
def test_leftovers_are_shared_until_nobody_is_hungry(stored, read):
    """One run is satisfied only by what another one left."""
    plans, rows = Vnodes(*stored).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 60)
    assert rows == read
    assert [plan.completes for plan in plans] == [True, True, False]


def test_a_rate_limit_below_the_number_of_runs_leaves_some_without_a_part():
    """I4: the rate limit is a cap, and one row at least is read."""
    plans, rows = Vnodes(10, 10, 10).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 1)
    assert rows == [1, 0, 0]
    assert [plan.ranges for plan in plans[1:]] == [(), ()]
    assert not any(plan.completes for plan in plans)
    assert plans[1] == ChunkPlan((), 0, False, 0, 0, 0)


def test_a_run_with_nothing_left_has_no_part():
    plans, rows = Vnodes(10, 10).parts([[], [vnode(1)]], 4)
    assert (rows, plans[0]) == ([0, 4], ChunkPlan((), 0, True, 0, 0, 0))


def test_a_run_that_takes_all_of_the_rate_limit_leaves_nothing():
    plans, rows = Vnodes(1, 10).parts([[vnode(0)], [vnode(1)]], 1)
    assert (rows, [plan.completes for plan in plans]) == ([1, 0], [True, False])


def test_a_run_that_needs_less_than_its_share_is_counted_without_a_look_at_keys():
    layout = Vnodes(10, 10, 100)
    index = ExactKeys(layout.keys, layout.order)
    plans = plan_parts(layout.files, unread=[[vnode(0)], [vnode(2)]], rate_limit=40, order=layout.order, keys=index)
    assert [plan.rows for plan in plans] == [10, 30]
    assert index.read == {"part-001"}, "the file that ends where the other run begins"


def test_no_rate_limit_gives_every_run_all_of_its_own():
    unread = [[vnode(0, 1)], [vnode(2), vnode(3)]]
    plans, rows = Vnodes(10, 20, 30, 40).parts(unread, None)
    assert rows == [30, 70]
    assert [plan.ranges for plan in plans] == [tuple(ranges) for ranges in unread]
    assert all(plan.completes for plan in plans)


@pytest.mark.parametrize("rate_limit", [None, 9])
def test_no_runs_have_no_parts(rate_limit):
    assert Vnodes(10).parts([], rate_limit) == ((), [])


def test_one_run_plans_as_if_there_were_no_parts():
    layout = Vnodes(30, 30)
    (part,), _ = layout.parts([[vnode(0, 1)]], 25)
    assert part == plan_of(layout, [vnode(0, 1)], 25)[0]


@st.composite
def shared_vnodes(draw):
    """Draw vnodes, and which of them each run owns."""
    rows = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
    cuts = draw(st.sets(st.integers(0, len(rows))))
    return Vnodes(*rows), [[vnode(first, end - 1)] for first, end in pairwise(sorted({0, *cuts, len(rows)}))], sum(rows)


@pytest.mark.slow
@given(shared_vnodes(), st.integers(1, 80))
def test_runs_hold_the_cap_together_and_read_nothing_twice(drawn, rate_limit):
    layout, unread, stored = drawn
    plans, read = layout.parts(unread, rate_limit)
    chunk = [covered for plan in plans for covered in plan.ranges]
    assert len(ExactKeys(layout.keys, layout.order).within(layout.keys, *chunk)) == sum(read) <= rate_limit
    assert sum(read) > 0 or not stored
    assert sum(read) == stored or not all(plan.completes for plan in plans)
    for plan, count in zip(plans, read, strict=True):
        assert plan.completes or count >= 0.9 * (rate_limit // len(unread)) - 1, "its fair share"


@example((Vnodes(1, 10), [[vnode(0)], [vnode(1)]], 11), 19)
@given(shared_vnodes(), st.integers(1, 80))
def test_runs_together_read_as_much_as_the_rate_limit_allows(drawn, rate_limit):
    """I4: finished within about rows ÷ rate limit epochs."""
    layout, unread, _ = drawn
    plans, read = layout.parts(unread, rate_limit)
    assert all(plan.completes for plan in plans) or sum(read) >= 0.9 * rate_limit - len(plans)
