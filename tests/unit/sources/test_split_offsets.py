"""Offsets of splits: one for each split, and their sum first; ordered by their sums, and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window

ENDS = st.lists(st.integers(0, 2**63 - 1), max_size=20)


@given(ENDS)
def test_an_offset_is_read_back_as_it_was_written(ends):
    by_partition = dict(enumerate(ends))
    offset = offset_of(by_partition)
    assert ends_of(offset) == by_partition
    assert ends_of(Offset.model_validate(json.loads(offset.model_dump_json()))) == by_partition
    assert offset_of(ends_of(offset)) == offset


@given(ENDS, st.data())
def test_an_offset_that_lies_further_in_any_partition_is_later(ends, data):
    """What an offset is for: I3, and the lag in records."""
    grown = data.draw(st.lists(st.integers(0, 1000), min_size=len(ends), max_size=len(ends) + 3))
    later = [end + growth for end, growth in zip(ends, grown, strict=False)] + grown[len(ends) :]
    before, after = offset_of(dict(enumerate(ends))), offset_of(dict(enumerate(later)))
    assert after.distance_from(before) == sum(grown)
    if sum(grown):
        assert before < after
    assert before > BEGINNING


def test_a_partition_that_was_added_has_no_end_yet():
    assert ends_of(offset_of({0: 4})).get(1) is None
    assert ends_of(BEGINNING) == ends_of(offset_of({})) == {}


def test_partitions_are_told_apart_although_the_sum_is_the_same():
    assert offset_of({0: 1, 1: 10}) != offset_of({0: 10, 1: 1})
    assert str(offset_of({0: 1, 1: 10})) == "11, 1 10"


def test_all_partitions_are_needed():
    with pytest.raises(KeyError):
        offset_of({0: 1, 2: 1})


@pytest.mark.parametrize(
    "root",
    [7, "7", (7,), (7, "3 3"), (7, "3 x 4"), (7, "7 0 -"), ("7", "7"), (3, "1", "2"), (0, "x")],
    ids=str,
)
def test_what_is_no_offset_of_splits_is_refused(root):
    """I6: also one whose sum is another, so that a damaged state is not believed."""
    with pytest.raises(StateError, match="is no offset of splits; rebuild the job"):
        ends_of(Offset(root))


@pytest.mark.parametrize("root", [(3, "4 -1"), (0, "1 -1")], ids=str)
def test_an_offset_before_the_first_record_is_refused(root):
    """I6."""
    with pytest.raises(StateError, match="is no offset of splits"):
        ends_of(Offset(root))


def test_a_window_has_the_places_in_between_and_never_goes_back():
    """I3."""
    after, up_to = offset_of({0: 3}), offset_of({0: 5, 1: 2})
    assert window(after, up_to) == [SplitRange(0, 3, 5), SplitRange(1, 0, 2)]
    with pytest.raises(StateError, match="goes back"):
        window(offset_of({0: 3, 1: 3}), offset_of({0: 9, 1: 2}))
