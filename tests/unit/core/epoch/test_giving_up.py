"""What is left of an epoch that is given up."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.barrier import PinnedMutation, PinnedRange, PinnedRead
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.giving_up import all_given_up, chunk_given_up, require_not_given_up
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.errors import EpochGivenUpError
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from tests.builders import NOW, barrier_of, commit_of, part_of, settings_of, window_of

WHY = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=5, settings_sequence=2)
PARTS = (part_of(("5",), ("6",)), part_of(("6",), ("7",)), part_of(("7",), ("9",)))
PAUSE = PinnedMutation(mutation="pause", requested_by="x", requested_at=NOW)
ASKED = {"repair": Repair(vnodes=(1,)), "mutations": (PAUSE,), "settings_sequence": 4}


def test_an_epoch_that_was_given_up_is_never_done():
    done = commit_of(barrier_of())
    assert require_not_given_up(None, "orders") is None
    assert require_not_given_up(done, "orders") is done
    with pytest.raises(EpochGivenUpError, match="epoch 1 of job orders was given up"):
        require_not_given_up(done.model_copy(update={"given_up": True}), "orders")


def test_the_parts_that_were_read_stay_and_so_do_the_changes():
    barrier = barrier_of(upstream=window_of(3, 5), parts=PARTS, older_offset=4, **ASKED)
    left = chunk_given_up(barrier, {2, 0}, why=WHY)
    assert left == barrier.model_copy(update={"parts": (PARTS[0], PARTS[2]), "given_up": WHY})
    assert left.view_after[-1] == PinnedRead(
        ranges=(*PARTS[0].ranges, PinnedRange(after=("7",), up_to=("9",))), offset=4
    )


def test_an_epoch_without_a_part_reads_at_no_older_offset():
    left = chunk_given_up(barrier_of(upstream=window_of(3, 5), parts=PARTS, older_offset=4), (), why=WHY)
    assert (left.parts, left.older_offset) == ((), None)
    assert left.upstream.to_offset == Offset(5), "the changes are applied"


def test_nothing_is_left_of_an_epoch_whose_changes_were_not_written():
    """Its window stays where it was, and mutations that it was the first to pin are pinned again."""
    previous = barrier_of(1, upstream=window_of(-1, 3, mark="m3"), settings_sequence=2)
    barrier = barrier_of(2, upstream=window_of(3, 5, mark="m5"), parts=PARTS, **ASKED)
    left = all_given_up(barrier, previous=previous, settings=settings_of(), why=WHY)
    assert (left.upstream.from_offset, left.upstream.to_offset, left.upstream.mark) == (Offset(3), Offset(3), "m3")
    assert (left.parts, left.mutations, bool(left.repair), left.publishes) == ((), (), False, False)
    assert (left.settings_sequence, left.given_up, left.epoch) == (2, WHY, 2)
    assert left.view_after == barrier.view_before


@pytest.mark.parametrize(("start", "mark"), [(None, None), (HistoryPoint(offset=3, mark="s3"), "s3")])
def test_a_first_epoch_that_is_given_up_leaves_the_job_where_it_started(start, mark):
    barrier = barrier_of(1, upstream=window_of(3, 5, mark="m5"), read_before=(), **ASKED)
    left = all_given_up(barrier, previous=None, settings=settings_of(start=start), why=WHY)
    assert (left.upstream.to_offset, left.upstream.mark, left.settings_sequence) == (Offset(3), mark, 0)
