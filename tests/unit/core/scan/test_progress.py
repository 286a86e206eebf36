"""Progress per vnode: how an epoch moves it, and that it never goes back."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    position_of,
)
from tests.builders import order_of

ORDER = order_of("long")


def state_of(*vnodes, epoch=5):
    return BackfillState(epoch=epoch, vnodes=vnodes)


def test_only_a_vnode_that_started_has_a_position():
    """
    No position, and the position of null keys, are different things.

    See docs/concepts/rules.md#no-position-is-not-the-null-key.
    """
    assert position_of(NotStarted()) is None
    assert position_of(InProgress((None,), 0)) == (None,)
    assert position_of(Completed(None, 0)) is None
    assert position_of(Completed((7,), 9)) == (7,)


def test_a_job_is_completed_once_every_vnode_is():
    """docs/concepts/rules.md#the-last-chunk-has-no-upper-bound."""
    assert state_of(Completed(None, 0), Completed((7,), 9)).completed
    assert not state_of(Completed(None, 0), NotStarted()).completed
    assert not state_of(Completed(None, 0), InProgress((7,), 9)).completed


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


def test_a_position_may_stay_where_it_is():
    """For example after a chunk whose rows were all deleted, or in a paused epoch."""
    state_of(InProgress((7,), 3)).require_successor(state_of(InProgress((7,), 3), epoch=6), ORDER)


def test_epochs_never_go_back_and_may_be_written_again():
    """I2 and I3."""
    state = state_of(InProgress((7,), 3))
    state.require_successor(state, ORDER)
    with pytest.raises(StateError, match="epoch 4 cannot be committed after epoch 5"):
        state.require_successor(state_of(InProgress((7,), 3), epoch=4), ORDER)


def test_the_number_of_vnodes_is_frozen():
    with pytest.raises(StateError, match="has 1 vnodes, but the next one has 2"):
        state_of(NotStarted()).require_successor(state_of(NotStarted(), NotStarted(), epoch=6), ORDER)
