"""Chunks of splits: who gets how much of a rate limit, and which places a range of positions has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, fair_shares, next_ranges, places_of
from tests.unit.strategies.scan_states import state_of
from tests.unit.strategies.source.in_memory import of_vnode, scan_of

ALL = KeyRange(None, None)


def bounds_of(ends, begins=None):
    return SplitBounds(begins=begins or {}, ends=ends)


def three(*ends):
    """Return a scan of three vnodes, and the bounds of a split in each."""
    (a,), (b,), (c,) = (of_vnode(vnode, 3) for vnode in range(3))
    return scan_of(3), bounds_of(dict(zip((a, b, c), ends, strict=True))), (a, b, c)


# --- shares ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "limit", "shares"),
    [
        ([], 5, []),
        ([], None, []),
        ([3, 4], None, [3, 4]),
        ([3, 4], 7, [3, 4]),
        ([3, 4], 100, [3, 4]),
        ([9, 9, 9], 6, [2, 2, 2]),
        ([9, 9, 9], 7, [3, 2, 2]),
        ([9, 9, 9], 8, [3, 3, 2]),
        # What a part does not need goes to the others.
        ([1, 9, 9], 9, [1, 4, 4]),
        ([9, 1, 9], 10, [5, 1, 4]),
        ([9, 3, 0, 1], 8, [4, 3, 0, 1]),
        ([0, 0, 5], 2, [0, 0, 2]),
        # Each in turn, however small the limit (I4).
        ([9, 9, 9], 1, [1, 0, 0]),
        ([9, 9, 9], 0, [0, 0, 0]),
        ([0, 9, 9], 1, [0, 1, 0]),
    ],
    ids=str,
)
def test_a_limit_is_divided_fairly(sizes, limit, shares):
    assert fair_shares(sizes, limit) == shares


@given(st.lists(st.integers(0, 30), max_size=8), st.none() | st.integers(0, 100))
def test_shares_use_up_the_limit_and_differ_only_by_one_or_by_need(sizes, limit):
    shares = fair_shares(sizes, limit)
    assert sum(shares) == (sum(sizes) if limit is None else min(limit, sum(sizes)))
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))
    cut = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    # Those that could take more got the same, and no one got more than they did.
    assert not cut or max(shares) <= min(cut) + 1


# --- places ---------------------------------------------------------------------------------------


def test_all_places_are_those_from_the_first_to_the_end():
    assert bounds_of({0: 9, 1: 5, 2: 0}, {0: 2}).size == 12
    assert places_of(scan_of(), [ALL], bounds_of({0: 9, 1: 5, 2: 0}, {0: 2})) == [
        SplitRange(0, 2, 9),
        SplitRange(1, 0, 5),
    ]


@pytest.mark.parametrize(
    ("after", "up_to", "expected"),
    [
        (None, (0, 0, 3), [(0, 0, 4)]),
        ((0, 0, 3), None, [(0, 4, 9), (2, 1, 6)]),
        ((0, 0, 3), (0, 0, 3), []),
        ((0, 0, 3), (0, 0, 4), [(0, 4, 5)]),
        ((0, 0, 3), (0, 2, 1), [(0, 4, 9), (2, 1, 2)]),
        ((0, 0, 8), None, [(2, 1, 6)]),
        ((0, 2, 1), (0, 2, 5), [(2, 2, 6)]),
        # A position of a split without places, and positions outside of a split's places.
        ((0, 1, 4), None, [(2, 1, 6)]),
        (None, (0, 1, 0), [(0, 0, 9)]),
        ((0, 0, 99), (0, 2, 99), [(2, 1, 6)]),
        (None, (0, 2, 0), [(0, 0, 9)]),
    ],
    ids=str,
)
def test_a_range_within_a_vnode_has_the_places_between_its_positions(after, up_to, expected):
    """Splits of one vnode are read one after the other."""
    bounds = bounds_of({0: 9, 1: 0, 2: 6}, {2: 1})
    assert places_of(scan_of(), [KeyRange(after, up_to)], bounds) == [SplitRange(*places) for places in expected]


def test_a_range_over_several_vnodes_has_whole_splits_between_its_ends():
    scan, bounds, (a, b, c) = three(5, 5, 5)
    assert places_of(scan, [KeyRange((0, a, 1), (2, c, 3))], bounds) == [
        SplitRange(a, 2, 5),
        SplitRange(b, 0, 5),
        SplitRange(c, 0, 4),
    ]
    assert places_of(scan, [KeyRange((0,), (1,))], bounds) == [SplitRange(b, 0, 5)]
    assert places_of(scan, [KeyRange((1,), None), KeyRange(None, (0,))], bounds) == [
        SplitRange(c, 0, 5),
        SplitRange(a, 0, 5),
    ]


def test_splits_of_vnodes_that_are_not_the_jobs_are_left_out():
    _, bounds, (a, _, c) = three(5, 5, 5)
    assert places_of(scan_of(3, vnodes=[0, 2]), [ALL], bounds) == [SplitRange(a, 0, 5), SplitRange(c, 0, 5)]


@pytest.mark.parametrize("position", [(0, "0", 3), (0, 0, "3"), (0, 0, None)], ids=str)
def test_a_position_that_is_no_place_is_refused(position):
    """I6."""
    with pytest.raises(StateError, match="is not a place in a split; rebuild the job"):
        places_of(scan_of(), [KeyRange(position, None)], bounds_of({0: 9}))


# --- ranges ---------------------------------------------------------------------------------------


def test_all_is_read_at_once_without_a_limit():
    scan, bounds, _ = three(5, 0, 5)
    assert next_ranges(scan, scan.initial(0), bounds, limit=None) == (ALL,)
    assert next_ranges(scan, scan.initial(0), bounds, limit=10) == (ALL,)


def test_each_vnode_gets_its_share():
    scan, bounds, (a, b, c) = three(5, 5, 5)
    assert next_ranges(scan, scan.initial(0), bounds, limit=7) == (
        KeyRange(None, (0, a, 2)),
        KeyRange((0,), (1, b, 1)),
        KeyRange((1,), (2, c, 1)),
    )


def test_a_vnode_goes_on_after_its_position_and_a_completed_one_is_not_read_again():
    scan, bounds, (a, b, c) = three(5, 5, 5)
    state = state_of(InProgress((a, 2), 3), Completed((b, 3), 5), NotStarted())
    assert next_ranges(scan, state, bounds, limit=3) == (
        KeyRange((0, a, 2), (0,)),
        KeyRange((1,), (2, c, 0)),
    )
    assert next_ranges(scan, state_of(*[Completed(None, 5)] * 3), bounds, limit=3) == ()


def test_a_vnode_without_places_is_covered_to_its_end_whatever_the_limit():
    """Semantics 15: an empty split is finished at once, and so is a vnode that has no split."""
    scan, bounds, (a, _, c) = three(5, 0, 5)
    assert next_ranges(scan, scan.initial(0), bounds, limit=1) == (KeyRange(None, (0, a, 0)), KeyRange((0,), (1,)))
    state = state_of(InProgress((a, 4), 5), NotStarted(), InProgress((c, 0), 1))
    assert next_ranges(scan, state, bounds, limit=1) == (KeyRange((0, a, 4), (1,)), KeyRange((2, c, 0), (2, c, 1)))


def test_ranges_that_touch_are_joined():
    scan, bounds, (_, b, _) = three(2, 5, 1)
    assert next_ranges(scan, scan.initial(0), bounds, limit=6) == (KeyRange(None, (1, b, 2)), KeyRange((1,), None))


def test_a_cut_between_two_splits_of_a_vnode_lies_at_the_end_of_the_first():
    """So what is appended to the first one is a change, and the second one is read from its first place on."""
    scan, bounds = scan_of(), bounds_of({0: 4, 1: 4}, {1: 2})
    (read,) = next_ranges(scan, scan.initial(0), bounds, limit=4)
    assert read == KeyRange(None, (0, 0, 3))
    state = scan.advanced(scan.initial(0), epoch=1, ranges=[read], rows={0: 4})
    grown = bounds_of({0: 9, 1: 4}, {1: 2})
    assert next_ranges(scan, state, grown, limit=1) == (KeyRange((0, 0, 3), (0, 0, 4)),)
    assert next_ranges(scan, state, grown, limit=6) == (KeyRange((0, 0, 3), (0, 1, 2)),)
    assert next_ranges(scan, state, grown, limit=7) == (KeyRange((0, 0, 3), None),)


def test_a_task_run_reads_only_its_own_vnodes():
    scan, bounds, (a, b, _) = three(5, 5, 5)
    assert next_ranges(scan, scan.initial(0), bounds, limit=4, vnodes=(0, 1)) == (
        KeyRange(None, (0, a, 1)),
        KeyRange((0,), (1, b, 1)),
    )
    assert next_ranges(scan, scan.initial(0), bounds, limit=None, vnodes=(2, 2)) == (KeyRange((1,), None),)


def test_a_task_run_whose_share_is_nothing_only_passes_what_has_no_places():
    scan, bounds, _ = three(5, 0, 5)
    assert next_ranges(scan, scan.initial(0), bounds, limit=0, vnodes=(0, 1)) == (KeyRange((0,), (1,)),)
    assert next_ranges(scan, scan.initial(0), bounds, limit=0, vnodes=(2, 2)) == ()
