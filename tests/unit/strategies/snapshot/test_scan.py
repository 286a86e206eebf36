"""The scan by (file, row): one position for all vnodes, and everything read before any vnode is Completed."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END, SnapshotScan, before_file, place_of
from tests.unit.strategies.scan_states import state_of

SCAN = SnapshotScan(3, OwnColumns("___"))


def shared_by_all(progress):
    return state_of(progress, progress, progress)


def test_positions_are_files_and_rows_in_columns_that_no_user_has():
    assert [(field.name, field.type) for field in SCAN.order.fields] == [("___file", "integer"), ("___row", "long")]
    assert SCAN.order.compare((3, 99), before_file(4)) < 0 < SCAN.order.compare((4, 0), before_file(4))
    assert SCAN.order.compare(FILES_END, (10**9, 10**12)) > 0


@pytest.mark.parametrize(
    ("progress", "read", "unread"),
    [
        (NotStarted(), (), (EVERYTHING,)),
        (InProgress((0, 4), 5), (KeyRange(None, (0, 4)),), (KeyRange((0, 4), None),)),
        (InProgress(before_file(2), 9), (KeyRange(None, (2, -1)),), (KeyRange((2, -1), None),)),
        # Changes of any row are let through from now on; that is what the log is replayed for.
        (InProgress(FILES_END, 9), (EVERYTHING,), (KeyRange(FILES_END, None),)),
        (Completed(FILES_END, 9), (EVERYTHING,), ()),
    ],
)
def test_what_was_read_ends_at_the_position_and_is_everything_after_the_last_file(progress, read, unread):
    state = shared_by_all(progress)
    assert SCAN.read(state) == read
    assert SCAN.unread(state) == unread
    assert SCAN.unread(state, (1, 1)) == unread
    assert rows_read(SCAN, state) == progress.row_count


def test_the_position_moves_to_the_end_of_the_last_part():
    state = SCAN.initial(0)
    parts = [KeyRange(None, before_file(1)), KeyRange(before_file(1), (2, 7))]
    state = SCAN.advanced(state, epoch=1, ranges=parts, rows={0: 25})
    assert state == shared_by_all(InProgress((2, 7), 25)).__class__(1, (InProgress((2, 7), 25),) * 3)
    state = SCAN.advanced(state, epoch=2, ranges=[KeyRange((2, 7), FILES_END)], rows={0: 5})
    assert set(state.vnodes) == {InProgress(FILES_END, 30)}
    assert SCAN.advanced(state, epoch=3, ranges=[], rows={}) is state, "a step of the replay"
    state = SCAN.advanced(state, epoch=4, ranges=[KeyRange(FILES_END, None)], rows={})
    assert set(state.vnodes) == {Completed(FILES_END, 30)}


def test_vnodes_that_differ_are_refused():
    """I6."""
    with pytest.raises(StateError, match="different positions for vnodes"):
        SCAN.read(state_of(NotStarted(), NotStarted(), InProgress((0, 1), 1)))


@pytest.mark.parametrize("position", [(1,), (None, 2), ("1", 2), (1, 2, 3)])
def test_another_position_is_refused(position):
    with pytest.raises(StateError, match="not a row of a file; rebuild the job"):
        place_of(position)
