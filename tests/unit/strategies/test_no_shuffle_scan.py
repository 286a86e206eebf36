"""The scan by key, with one position for all vnodes."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan
from tests.builders import order_of
from tests.unit.strategies.scan_states import state_of


def in_place(vnodes=2, keys=EVERYTHING):
    return NoShuffleScan(order_of("long"), vnodes, keys)


def test_a_new_job_has_started_no_vnode():
    state = in_place(3).initial(0)
    assert state == state_of(NotStarted(), NotStarted(), NotStarted(), epoch=0)
    assert not state.completed
    assert in_place(3).read(state) == ()
    assert in_place(3).unread(state) == (EVERYTHING,)
    assert rows_read(in_place(3), state) == 0


@pytest.mark.parametrize(
    ("progress", "read", "unread"),
    [
        (InProgress((7,), 3), KeyRange(None, (7,)), (KeyRange((7,), None),)),
        (InProgress((None,), 1), KeyRange(None, (None,)), (KeyRange((None,), None),)),
        (Completed((7,), 3), EVERYTHING, ()),
        (Completed(None, 0), EVERYTHING, ()),
    ],
)
def test_what_was_read_ends_at_the_position(progress, read, unread):
    """docs/concepts/rules.md#changes-are-filtered-by-the-old-position and #no-position-is-not-the-null-key."""
    state = state_of(progress, progress)
    assert in_place().read(state) == (read,)
    assert in_place().unread(state) == unread
    assert in_place().unread(state, (1, 1)) == unread, "vnodes share the one position"
    assert rows_read(in_place(), state) == progress.row_count, "every vnode records the sum"


@pytest.mark.parametrize(
    "vnodes",
    [
        (NotStarted(), InProgress((1,), 1)),
        (InProgress((1,), 1), InProgress((2,), 1)),
        (InProgress((1,), 1), InProgress((1,), 2)),
        (Completed(None, 1), Completed((1,), 1)),
    ],
)
@pytest.mark.parametrize("question", [NoShuffleScan.read, NoShuffleScan.unread])
def test_vnodes_that_differ_are_refused_where_all_share_one_position(vnodes, question):
    """I6: another writer wrote to the state."""
    with pytest.raises(StateError, match=r"different positions for vnodes as of epoch 5.*rebuild the job"):
        question(in_place(), state_of(*vnodes))


def test_an_epoch_that_reads_a_chunk_moves_all_vnodes_to_its_end():
    scan = in_place()
    state = scan.advanced(scan.initial(0), epoch=1, ranges=[KeyRange(None, (7,))], rows={0: 3})
    assert state == state_of(InProgress((7,), 3), InProgress((7,), 3), epoch=1)
    state = scan.advanced(state, epoch=2, ranges=[KeyRange((7,), (9,))], rows={})
    assert state == state_of(InProgress((9,), 3), InProgress((9,), 3), epoch=2)


def test_the_chunk_without_an_upper_bound_completes():
    """docs/concepts/rules.md#the-last-chunk-has-no-upper-bound: the last chunk has no upper bound."""
    first = in_place(1).advanced(in_place(1).initial(0), epoch=1, ranges=[EVERYTHING], rows={})
    assert first == state_of(Completed(None, 0), epoch=1)
    last = in_place(1).advanced(state_of(InProgress((7,), 3)), epoch=6, ranges=[KeyRange((7,), None)], rows={0: 2})
    assert last == state_of(Completed((7,), 5), epoch=6)
    assert last.completed


def test_a_job_about_some_keys_reads_these_and_is_completed_at_their_end():
    scan = in_place(1, KeyRange((3,), (8,)))
    assert scan.unread(scan.initial(0)) == (KeyRange((3,), (8,)),)
    begun = scan.advanced(scan.initial(0), epoch=1, ranges=[KeyRange((3,), (5,))], rows={0: 2})
    assert begun == state_of(InProgress((5,), 2), epoch=1)
    assert scan.unread(begun) == (KeyRange((5,), (8,)),)
    assert scan.advanced(begun, epoch=2, ranges=[KeyRange((5,), (8,))], rows={0: 3}).completed


def test_what_was_read_of_a_part_has_no_bounds_but_the_position():
    """A row outside of the part is none of the job's, so nothing else has to keep its changes away."""
    scan = NoShuffleScan(order_of("long"), 2, KeyRange((2,), (6,)))
    begun, done = (
        BackfillState(epoch=1, vnodes=(progress,) * 2) for progress in (InProgress((3,), 1), Completed((3,), 4))
    )
    assert (scan.read(begun), scan.read(done)) == ((KeyRange(None, (3,)),), (KeyRange(None, None),))


def test_an_epoch_without_a_chunk_leaves_the_state_as_it_is():
    """
    State is written only when it changed; so it keeps the epoch that wrote it.

    See docs/concepts/rules.md#state-is-written-when-it-changes.
    """
    state = state_of(InProgress((7,), 3))
    assert in_place(1).advanced(state, epoch=6, ranges=(), rows={}) is state


def test_each_vnode_stands_for_all_rows():
    assert in_place().rows_of_one(10) == 10
    assert in_place().rows_in([InProgress((7,), 3)] * 2) == 3
