"""How far each split is read follows from the position of its vnode."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.scan.splits import (
    SplitProgress,
    SplitRange,
    SplitStage,
    split_progress,
    splits_by_vnode,
)

ONE_VNODE = 1
"""All splits are in it, one after the other."""


def progress(vnode, *, begins=None, live_from=None, ends):
    """Return stage, first and next place of each split of a job with one vnode."""
    state = BackfillState(epoch=3, vnodes=(vnode,))
    found = split_progress(state, begins=begins or {}, live_from=live_from or {}, ends=ends)
    assert all(part.end == ends[split] == ends[part.read.split] for split, part in found.items())
    return {split: (part.stage.value, part.read.begin, part.read.end) for split, part in found.items()}


def test_a_range_has_as_many_places_as_lie_before_its_end():
    assert SplitRange(0, 3, 7).size == 4
    assert SplitRange(0, 7, 7).size == SplitRange(0, 8, 7).size == 0
    assert sorted([SplitRange(1, 0, 2), SplitRange(0, 5, 6)]) == [SplitRange(0, 5, 6), SplitRange(1, 0, 2)]


def test_splits_are_listed_by_vnode_in_the_order_in_which_they_are_read():
    found = splits_by_vnode([9, 2, 0, 5, 17], 4)
    assert sorted(split for splits in found.values() for split in splits) == [0, 2, 5, 9, 17]
    assert all(splits == sorted(splits) for splits in found.values())
    assert all(vnode_of_number(split, 4) == vnode for vnode, splits in found.items() for split in splits)
    assert splits_by_vnode([], 4) == {}
    assert splits_by_vnode([3, 1, 2], ONE_VNODE) == {0: [1, 2, 3]}


@pytest.mark.parametrize(
    ("vnode", "stage", "read_up_to"),
    [
        (NotStarted(), "backfilling", 2),
        (InProgress((0, 2), 1), "backfilling", 3),
        (InProgress((0, 8), 7), "backfilling", 9),
        # The last place of what was there is read: from here on, what was appended since is caught up with.
        (InProgress((0, 9), 8), "catching_up", 10),
        (InProgress((0, 13), 12), "catching_up", 14),
        # At the very end it is not finished: only a chunk that ends where the split does completes the vnode.
        (InProgress((0, 14), 13), "catching_up", 15),
        (Completed((0, 9), 13), "finished", 15),
        (Completed(None, 0), "finished", 15),
    ],
    ids=str,
)
def test_a_split_is_backfilled_then_catches_up_and_is_finished(vnode, stage, read_up_to):
    """Semantics 15, with the states of the streaming executor."""
    found = progress(vnode, begins={0: 2}, live_from={0: 10}, ends={0: 15})
    assert found == {0: (stage, 2, read_up_to)}


def test_a_position_in_a_gap_is_as_good_as_one_at_a_row():
    """Semantics 15: no place has to have a row; the position may lie in what compaction removed."""
    assert progress(InProgress((0, 5), 0), live_from={0: 5}, ends={0: 9}) == {0: ("catching_up", 0, 6)}
    assert progress(InProgress((0, 4), 0), live_from={0: 5}, ends={0: 9}) == {0: ("catching_up", 0, 5)}
    assert progress(InProgress((0, 3), 0), live_from={0: 5}, ends={0: 9}) == {0: ("backfilling", 0, 4)}


def test_an_empty_split_is_not_backfilling_and_finished_with_its_vnode():
    """Semantics 15."""
    assert progress(NotStarted(), ends={0: 0}) == {0: ("catching_up", 0, 0)}
    assert progress(NotStarted(), begins={0: 7}, live_from={0: 7}, ends={0: 7}) == {0: ("catching_up", 7, 7)}
    assert progress(Completed(None, 0), ends={0: 0}) == {0: ("finished", 0, 0)}


def test_a_split_that_was_added_later_has_no_past():
    """Semantics 15: it is caught up with from its first place, or is finished with its vnode."""
    begins, live_from = {0: 2}, {0: 10}
    assert progress(InProgress((0, 11), 9), begins=begins, live_from=live_from, ends={0: 12, 1: 5}) == {
        0: ("catching_up", 2, 12),
        1: ("catching_up", 0, 0),
    }
    assert progress(Completed((0, 11), 9), begins=begins, live_from=live_from, ends={0: 12, 1: 5})[1] == (
        "finished",
        0,
        5,
    )


def test_splits_of_one_vnode_are_read_one_after_the_other():
    """What was appended to a split before the position's is read as a change, so it has no place that is left."""
    ends = {0: 6, 1: 6, 2: 6}
    found = progress(InProgress((1, 3), 10), live_from=ends, ends=ends)
    assert found == {0: ("catching_up", 0, 6), 1: ("backfilling", 0, 4), 2: ("backfilling", 0, 0)}


def test_splits_of_different_vnodes_do_not_hold_each_other_up():
    count = 4
    apart = {vnode_of_number(split, count): split for split in range(20)}
    first, second = sorted(apart.values())[:2]
    vnodes = [NotStarted()] * count
    vnodes[vnode_of_number(first, count)] = Completed(None, 4)
    vnodes[vnode_of_number(second, count)] = InProgress((second, 1), 2)
    found = split_progress(
        BackfillState(epoch=1, vnodes=tuple(vnodes)),
        begins={},
        live_from={first: 4, second: 4},
        ends={first: 5, second: 5},
    )
    assert found == {
        first: SplitProgress(SplitStage.FINISHED, SplitRange(first, 0, 5), 5),
        second: SplitProgress(SplitStage.BACKFILLING, SplitRange(second, 0, 2), 5),
    }


@pytest.mark.parametrize("position", [("0", 4), (0, "4"), (0, None)], ids=str)
def test_a_position_that_is_no_place_is_refused(position):
    """I6."""
    with pytest.raises(TypeError, match="is not a place in a split"):
        progress(InProgress(position, 1), ends={0: 9})
