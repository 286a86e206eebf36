"""The scan by vnode and key: what was read, what was not, and how an epoch moves the one into the other."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import order_of
from tests.unit.strategies.scan_states import KEY, KEYS, STATES, divided, state_of


def arranged(vnodes, about=None):
    return VnodeScan(KEY, vnodes, frozenset(range(vnodes) if about is None else about))


def covering(ranges, position, order):
    return sum(covered.contains(position, order) for covered in ranges)


def test_an_epoch_without_a_chunk_leaves_the_state_as_it_is():
    """
    State is written only when it changed; so it keeps the epoch that wrote it.

    See docs/concepts/rules.md#state-is-written-when-it-changes.
    """
    state = state_of(InProgress((7, "a"), 3))
    assert arranged(1).advanced(state, epoch=6, ranges=(), rows={}) is state


def test_a_position_of_an_arrangement_begins_with_the_vnode():
    assert arranged(2).order.names == ("__vnode", "k1", "k2")
    assert [field.descending for field in arranged(2).order.fields] == [False, False, True]
    assert [field.type for field in arranged(2).order.fields] == ["integer", "long", "string"]
    assert arranged(2).rows_of_one(10) == 5


def test_a_new_arrangement_is_unread_as_one_range():
    scan = arranged(3)
    assert scan.initial(4) == state_of(NotStarted(), NotStarted(), NotStarted(), epoch=4)
    assert (scan.read(scan.initial(0)), scan.unread(scan.initial(0))) == ((), (EVERYTHING,))


def test_vnodes_that_a_job_is_not_about_are_completed_from_the_start():
    scan = arranged(4, {1, 3})
    assert scan.initial(0).vnodes == (Completed(None, 0), NotStarted(), Completed(None, 0), NotStarted())
    assert scan.unread(scan.initial(0)) == (KeyRange((0,), None),), "what lies in between has no rows of the job's"
    state = scan.advanced(scan.initial(0), epoch=1, ranges=scan.unread(scan.initial(0)), rows={1: 5})
    assert state.completed
    assert scan.read(state) == (KeyRange((0,), None),)


def test_scattered_vnodes_of_a_job_are_few_ranges():
    """A barrier that pinned each of them would be a condition that no engine can read."""
    scan = arranged(4096, set(range(1, 4096, 2)))
    (unread,) = scan.unread(scan.initial(0))
    begun = scan.advanced(scan.initial(0), epoch=1, ranges=[KeyRange(unread.after, (999, 7, 7))], rows={})
    assert len(scan.read(begun)) + len(scan.unread(begun)) == 2


def test_each_vnode_is_read_to_its_own_position():
    scan = arranged(5)
    state = state_of(Completed(None, 4), InProgress((1, "a"), 2), NotStarted(), Completed((2, "a"), 9), NotStarted())
    assert scan.read(state) == (KeyRange(None, (1, 1, "a")), KeyRange((2,), (3,)))
    assert scan.unread(state) == (KeyRange((1, 1, "a"), (2,)), KeyRange((3,), None))
    assert rows_read(scan, state) == 15


@pytest.mark.parametrize("key", [order_of("long"), KEY])
def test_the_rest_of_a_vnode_is_not_read_with_what_lies_after_it(key):
    """I1: the vnodes in between are none of the job's, and yet these two ranges are not one."""
    scan = VnodeScan(key, 4, frozenset({1, 3}))
    position = (1, "a")[: len(key.fields)]
    state = state_of(Completed(None, 0), InProgress(position, 2), Completed(None, 0), Completed(None, 9))
    assert scan.read(state) == (KeyRange((0,), (1, *position)), KeyRange((2,), None))
    assert scan.unread(state) == (KeyRange((1, *position), (1,)),)
    chunk = [KeyRange((0,), (1, *position))]
    assert scan.advanced(scan.initial(0), epoch=5, ranges=chunk, rows={1: 2}).vnodes[1] == InProgress(position, 2)


def test_vnodes_in_progress_are_ended_before_others_begin():
    """After a rescale a task run may own several of them."""
    state = state_of(NotStarted(), InProgress((1, "a"), 2), NotStarted(), InProgress((1, "b"), 2))
    assert arranged(4).unread(state) == (
        KeyRange((1, 1, "a"), (1,)),
        KeyRange((3, 1, "b"), None),
        KeyRange(None, (0,)),
        KeyRange((1,), (2,)),
    )


def test_a_task_run_reads_the_vnodes_that_it_owns():
    state = state_of(NotStarted(), InProgress((1, "a"), 2), NotStarted(), NotStarted())
    assert arranged(4).unread(state, (0, 1)) == (KeyRange((1, 1, "a"), (1,)), KeyRange(None, (0,)))
    assert arranged(4).unread(state, (2, 3)) == (KeyRange((1,), None),)


def test_a_vnode_completes_alone():
    """docs/concepts/strategies.md; and rows are counted where they were read."""
    scan = arranged(3)
    state = scan.advanced(scan.initial(0), epoch=1, ranges=[KeyRange(None, (1, 2, None))], rows={0: 5, 1: 3})
    assert state == state_of(Completed(None, 5), InProgress((2, None), 3), NotStarted(), epoch=1)
    state = scan.advanced(state, epoch=2, ranges=[KeyRange((1, 2, None), None)], rows={2: 1})
    assert state == state_of(Completed(None, 5), Completed((2, None), 3), Completed(None, 1), epoch=2)


def test_a_vnode_without_rows_completes_when_the_scan_passes_it():
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    scan = arranged(3)
    state = scan.advanced(scan.initial(0), epoch=1, ranges=[KeyRange(None, (2, 1, "a"))], rows={2: 1})
    assert state.vnodes == (Completed(None, 0), Completed(None, 0), InProgress((1, "a"), 1))


@pytest.mark.parametrize(
    ("covered", "vnodes"),
    [
        (EVERYTHING, [0, 1, 2, 3]),
        (KeyRange(None, (1,)), [0, 1]),
        (KeyRange((1,), (2,)), [2]),
        (KeyRange((1, 2, "a"), (1,)), [1]),
        (KeyRange((1, 2, "a"), (3, 1, "a")), [1, 2, 3]),
        (KeyRange((2,), None), [3]),
        (KeyRange((3,), None), []),
    ],
)
def test_a_range_has_keys_of_these_vnodes(covered, vnodes):
    assert list(arranged(4).vnodes_of(covered)) == vnodes


def test_a_position_that_does_not_begin_with_a_vnode_is_refused():
    """I6."""
    with pytest.raises(StateError, match="does not begin with a vnode"):
        arranged(2).vnodes_of(KeyRange(("a",), None))


# --- whatever the state ---------------------------------------------------------------------------


def positions(state):
    return [(vnode, *key) for vnode in range(len(state.vnodes)) for key in KEYS]


@st.composite
def chunks(draw, unread, order, candidates):
    """Draw what an epoch reads of some unread ranges: some whole, and at most one up to a point."""
    whole = draw(st.integers(0, len(unread)))
    chunk = list(unread[:whole])
    if whole < len(unread):
        inside = [position for position in candidates if unread[whole].contains(position, order)]
        if inside and draw(st.booleans()):
            chunk.append(KeyRange(unread[whole].after, draw(st.sampled_from(inside))))
    return tuple(chunk)


@settings(max_examples=50)
@given(STATES)
def test_every_vnode_and_key_is_either_read_or_unread(state):
    scan = arranged(len(state.vnodes))
    read, unread = scan.read(state), scan.unread(state)
    for position in positions(state):
        assert (covering(read, position, scan.order), covering(unread, position, scan.order)) in {(1, 0), (0, 1)}
        progress = state.vnodes[position[0]]
        was_read = isinstance(progress, Completed) or (
            isinstance(progress, InProgress) and KEY.compare(position[1:], progress.position) <= 0
        )
        assert covering(read, position, scan.order) == was_read


@settings(max_examples=50)
@given(STATES)
def test_ranges_that_touch_are_one(state):
    scan = arranged(len(state.vnodes))
    for ranges in (scan.read(state), scan.unread(state)):
        assert all(one.up_to is None or one.up_to != other.after for one, other in pairwise(ranges))
    if state.completed:
        assert (scan.read(state), scan.unread(state)) == ((EVERYTHING,), ())


@settings(max_examples=50)
@given(divided())
def test_task_runs_together_read_what_is_unread(drawn):
    state, runs, _ = drawn
    scan = arranged(len(state.vnodes))
    for position in positions(state):
        mine = [covering(scan.unread(state, run), position, scan.order) for run in runs]
        assert sum(mine) == covering(scan.unread(state), position, scan.order)


@settings(max_examples=50)
@given(st.data(), divided())
def test_what_an_epoch_read_is_read_from_then_on(data, drawn):
    """I3: the next state is a successor; I1: it shows what was read before and what the chunks hold, no more."""
    state, runs, _ = drawn
    scan = arranged(len(state.vnodes))
    candidates = positions(state)
    chunk = [covered for run in runs for covered in data.draw(chunks(scan.unread(state, run), scan.order, candidates))]
    touched = {vnode for covered in chunk for vnode in scan.vnodes_of(covered)}
    rows = {vnode: data.draw(st.integers(0, 3)) for vnode in touched}
    after = scan.advanced(state, epoch=6, ranges=chunk, rows=rows)
    state.require_successor(after, KEY)
    assert rows_read(scan, after) == rows_read(scan, state) + sum(rows.values())
    for position in candidates:
        before_or_now = covering((*scan.read(state), *chunk), position, scan.order)
        assert covering(scan.read(after), position, scan.order) == before_or_now
    if [*chunk] == [covered for run in runs for covered in scan.unread(state, run)]:
        assert after.completed


@settings(max_examples=50)
@given(st.data(), divided())
def test_a_task_run_that_ended_what_it_inherited_has_one_vnode_in_progress_at_most(data, drawn):
    """After a rescale; so there is never more than one for each task run again."""
    state, runs, _ = drawn
    scan = arranged(len(state.vnodes))
    for first, last in runs:
        chunk = data.draw(chunks(scan.unread(state, (first, last)), scan.order, positions(state)))
        after = scan.advanced(state, epoch=6, ranges=chunk, rows={})
        inherited = {v for v in range(first, last + 1) if isinstance(state.vnodes[v], InProgress)}
        begun = {v for v in range(first, last + 1) if isinstance(after.vnodes[v], InProgress)}
        if begun & inherited:
            assert begun <= inherited, "none begins before they are ended"
        else:
            assert len(begun) <= 1
