"""Offsets of splits: ordered by their sums, and read back."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.offset import BEGINNING, Offset
from airflow_backfill_provider.core.splits import SplitRange
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window


def test_an_offset_has_the_sum_first_and_is_read_back():
    offset = offset_of({1: 5, 0: 10})
    assert offset == Offset((15, "10 5"))
    assert ends_of(offset) == {0: 10, 1: 5}
    assert ends_of(BEGINNING) == {}
    assert offset_of({0: 9, 1: 6}) < offset_of({0: 9, 1: 7})
    assert offset_of({0: 9, 1: 7}).distance_from(offset) == 1


@pytest.mark.parametrize("root", [(14, "10 5"), (15, "10 x"), 15])
def test_what_is_no_offset_of_splits_is_refused(root: object):
    """I6."""
    with pytest.raises(StateError, match="rebuild the job"):
        ends_of(Offset(root))  # type: ignore[arg-type]


def test_a_window_has_the_places_in_between_and_never_goes_back():
    """I3."""
    after, up_to = offset_of({0: 3}), offset_of({0: 5, 1: 2})
    assert window(after, up_to) == [SplitRange(0, 3, 5), SplitRange(1, 0, 2)]
    with pytest.raises(StateError, match="goes back"):
        window(offset_of({0: 3, 1: 3}), offset_of({0: 9, 1: 2}))
