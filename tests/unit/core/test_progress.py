"""Progress per vnode: how an epoch moves it, and that it never goes back."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    SnapshotRange,
    position_of,
)
from tests.builders import order_of

ORDER = order_of("long")


def state_of(*vnodes, epoch=5):
    return BackfillState(epoch=epoch, vnodes=vnodes)


def test_a_new_job_has_started_no_vnode():
    state = BackfillState.initial(3)
    assert state == state_of(NotStarted(), NotStarted(), NotStarted(), epoch=0)
    assert not state.completed
    assert state.shared == NotStarted()


def test_only_a_vnode_that_started_has_a_position():
    """Design §5.7: no position, and the position of null keys, are different things."""
    assert position_of(NotStarted()) is None
    assert position_of(InProgress((None,), 0)) == (None,)
    assert position_of(Completed(None, 0)) is None
    assert position_of(Completed((7,), 9)) == (7,)


def test_a_job_is_completed_once_every_vnode_is_however_they_got_there():
    """Design §5.4."""
    assert state_of(Completed(None, 0), Completed((7,), 9)).completed
    assert not state_of(Completed(None, 0), NotStarted()).completed
    assert not state_of(Completed(None, 0), InProgress((7,), 9)).completed


@pytest.mark.parametrize(
    "vnodes",
    [
        (NotStarted(), InProgress((1,), 1)),
        (InProgress((1,), 1), InProgress((2,), 1)),
        (InProgress((1,), 1), InProgress((1,), 2)),
        (Completed(None, 1), Completed((1,), 1)),
    ],
)
def test_vnodes_that_differ_are_refused_where_all_share_one_position(vnodes):
    """I6: somebody else wrote to the state."""
    with pytest.raises(StateError, match="differ as of epoch 5.*rebuild the job"):
        state_of(*vnodes).shared  # noqa: B018


def test_an_epoch_that_reads_a_chunk_moves_all_vnodes_to_its_end():
    state = BackfillState.initial(2).advanced(epoch=1, chunk=SnapshotRange(None, (7,)), rows_read=3)
    assert state == state_of(InProgress((7,), 3), InProgress((7,), 3), epoch=1)
    state = state.advanced(epoch=2, chunk=SnapshotRange((7,), (9,)), rows_read=0)
    assert state.shared == InProgress((9,), 3)


def test_the_chunk_without_an_upper_bound_completes():
    """Design §5.4: the last chunk has no upper bound."""
    first = BackfillState.initial(1).advanced(epoch=1, chunk=SnapshotRange(None, None), rows_read=0)
    assert first.shared == Completed(None, 0)
    last = state_of(InProgress((7,), 3)).advanced(epoch=6, chunk=SnapshotRange((7,), None), rows_read=2)
    assert last == state_of(Completed((7,), 5), epoch=6)
    assert last.completed


def test_an_epoch_without_a_chunk_leaves_the_state_as_it_is():
    """Design §5.12: state is written only when it changed; so it keeps the epoch that wrote it."""
    state = state_of(InProgress((7,), 3))
    assert state.advanced(epoch=6, chunk=None, rows_read=0) is state


IN_ORDER = [NotStarted(), InProgress((None,), 0), InProgress((3,), 1), InProgress((7,), 5), Completed((7,), 9)]


@pytest.mark.parametrize("old", range(len(IN_ORDER)))
@pytest.mark.parametrize("new", range(len(IN_ORDER)))
def test_a_vnode_only_moves_forward(old, new):
    """I3."""
    before, after = state_of(IN_ORDER[old]), state_of(IN_ORDER[new], epoch=6)
    if new >= old:
        before.require_successor(after, ORDER)
    else:
        with pytest.raises(StateError, match="vnode 0 would go back") as caught:
            before.require_successor(after, ORDER)
        assert str(IN_ORDER[old]) in str(caught.value)
        assert str(IN_ORDER[new]) in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (InProgress((7,), 5), InProgress((9,), 4)),
        (InProgress((7,), 5), Completed((7,), 4)),
        (Completed((7,), 5), Completed((9,), 5)),
        (Completed((7,), 5), Completed((7,), 6)),
        (Completed(None, 0), InProgress((7,), 5)),
    ],
)
def test_row_counts_and_completed_vnodes_never_change_back(old, new):
    """I3: a completed vnode is never scanned again."""
    with pytest.raises(StateError, match="vnode 1 would go back"):
        state_of(NotStarted(), old).require_successor(state_of(NotStarted(), new, epoch=6), ORDER)


def test_a_position_moves_in_the_keys_own_direction():
    descending = order_of(("long", True))
    state_of(InProgress((7,), 1)).require_successor(state_of(InProgress((3,), 2), epoch=6), descending)
    with pytest.raises(StateError, match="would go back"):
        state_of(InProgress((7,), 1)).require_successor(state_of(InProgress((9,), 2), epoch=6), descending)


def test_epochs_never_go_back_and_may_be_written_again():
    """I2 and I3."""
    state = state_of(InProgress((7,), 3))
    state.require_successor(state, ORDER)
    with pytest.raises(StateError, match="epoch 4 cannot be committed after epoch 5"):
        state.require_successor(state_of(InProgress((7,), 3), epoch=4), ORDER)


def test_the_number_of_vnodes_is_frozen():
    with pytest.raises(StateError, match="has 1 vnodes, the next one 2"):
        state_of(NotStarted()).require_successor(state_of(NotStarted(), NotStarted(), epoch=6), ORDER)
