"""Planning what the next epoch reads of splits."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError, InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.core.scan.progress import Completed, InProgress, NotStarted
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.strategies.base import ChunkInputs
from airflow_backfill_provider.strategies.source import SourceBackfill
from airflow_backfill_provider.strategies.source.next_chunk import splits_of
from tests.builders import barrier_of, job_of, settings_of
from tests.unit.strategies.scan_states import state_of
from tests.unit.strategies.source.in_memory import Appended, NumberedSplits, of_vnode

QUERY = "SELECT partition, offset FROM upstream"
TYPES = {"partition": "integer", "offset": "long"}
VNODES = 4
A, B, C, D = (of_vnode(vnode, VNODES)[0] for vnode in range(VNODES))
"""A split in each vnode."""


def ends(*of_each, others=0):
    """Return an offset with the ends of the splits in the vnodes, one each; those in between are empty."""
    found = dict.fromkeys(range(max(A, B, C, D) + 1), others)
    return offset_of(found | dict(zip((A, B, C, D), of_each, strict=True)))


NONE = ends(0, 0, 0, 0)


def situation_of(offset, *, state=None, splits=None, first=NONE, previous=None, **changes):
    job = job_of(
        upstream={"kafka": {"connection": "events", "topic": "orders"}}, query=QUERY, vnode_count=VNODES, name="orders"
    )
    settings = settings_of(job, strategy="source", types=TYPES, start=HistoryPoint(offset=first), **changes)
    return ChunkInputs(
        settings=settings,
        rate_limit=settings.rate_limit,
        state=settings.scan.initial(0) if state is None else state,
        upstream=Appended(splits or NumberedSplits()),
        kept_up_to=first,
        offset=offset,
        newest=offset,
        previous=previous,
        storage_options=None,
    )


def planned(offset, **changes):
    return SourceBackfill().next_chunk(situation_of(offset, **changes))


def test_one_rate_limit_is_shared_by_all_vnodes():
    plan = planned(ends(9, 2, 0, 9), rate_limit=8)
    assert plan.ranges == (KeyRange(None, (0, A, 2)), KeyRange((0,), (3, D, 2)))
    (part,) = plan.parts
    assert (plan.row_count, part.rows, part.completes, part.warnings) == (20, 8, False, ())


def test_the_last_chunk_has_no_upper_bound():
    """Semantics 4."""
    plan = planned(ends(9, 2, 0, 9), rate_limit=20)
    assert plan.ranges == (KeyRange(None, None),)
    assert plan.parts[0].completes


def test_an_empty_upstream_is_read_to_its_end_at_once():
    """Semantics 7: also one whose rows are all older than the job."""
    for first in (NONE, ends(9, 9, 9, 9)):
        plan = planned(first, first=first, rate_limit=1)
        assert (plan.ranges, plan.row_count, plan.parts[0].completes) == ((KeyRange(None, None),), 0, True)


def test_what_is_older_than_the_job_is_not_read():
    plan = planned(ends(9, 0, 0, 0), first=ends(4, 0, 0, 0), rate_limit=2)
    assert (plan.ranges[0], plan.row_count) == (KeyRange(None, (0, A, 5)), 5)


@pytest.mark.parametrize("change", [{"paused": True}, {"rate_limit": 0}], ids=str)
def test_a_job_that_reads_no_snapshot_has_no_parts(change):
    """Semantics 8."""
    plan = planned(ends(9, 2, 0, 9), **change)
    assert (plan.parts, plan.row_count) == ((), 20)


def test_an_upstream_without_splits_is_refused():
    with pytest.raises(InvalidJobError, match="/lake/orders has none; use auto"):
        splits_of(DeltaSource("/lake/orders"))


# --- rows that are gone ---------------------------------------------------------------------------


def kept(a, *, skips):
    oldest = [0] * (max(A, B, C, D) + 1)
    oldest[A] = a
    return NumberedSplits(*oldest, skips=skips)


def test_rows_that_are_gone_before_they_were_read_fail_even_if_their_turn_is_not_yet():
    """I6."""
    with pytest.raises(ChangeFeedGapError, match=f"rows of splits {A} are gone"):
        planned(ends(9, 9, 9, 9), splits=kept(8, skips=False), rate_limit=1)


def test_what_was_read_or_is_older_than_the_job_may_be_gone():
    state = state_of(InProgress((A, 4), 5), NotStarted(), NotStarted(), NotStarted())
    assert planned(ends(9, 9, 9, 9), splits=kept(5, skips=False), state=state).parts
    with pytest.raises(ChangeFeedGapError):
        planned(ends(9, 9, 9, 9), splits=kept(6, skips=False), state=state)
    assert planned(ends(9, 9, 9, 9), splits=kept(4, skips=False), first=ends(4, 0, 0, 0)).parts


def test_lost_rows_are_passed_with_a_warning_and_do_not_use_up_the_rate_limit():
    plan = planned(ends(9, 0, 0, 0), splits=kept(6, skips=True), rate_limit=2)
    assert plan.ranges[0] == KeyRange(None, (0, A, 7))
    assert (plan.parts[0].rows, plan.warnings) == (2, (f"split {A} has lost rows",))
    # From the next epoch on it is no news.
    state = state_of(InProgress((A, 7), 2), *[Completed(None, 0)] * 3)
    plan = planned(ends(9, 0, 0, 0), splits=kept(6, skips=True), state=state, rate_limit=2)
    assert (plan.ranges, plan.warnings, plan.parts[0].completes) == ((KeyRange((0, A, 7), (0,)),), (), True)


def test_a_split_of_which_all_is_lost_is_completed():
    plan = planned(ends(9, 0, 0, 0), splits=kept(9, skips=True), rate_limit=2)
    assert (plan.ranges, plan.parts[0].rows, plan.parts[0].completes) == ((KeyRange(None, None),), 0, True)
    assert plan.warnings == (f"split {A} has lost rows",)


def test_only_what_is_left_to_read_is_compared_with_what_is_kept():
    splits = NumberedSplits()
    state = state_of(Completed(None, 9), InProgress((B, 3), 4), NotStarted(), Completed(None, 0))
    planned(ends(9, 9, 5, 0), splits=splits, state=state, rate_limit=2)
    unread = [SplitRange(B, 4, 9), SplitRange(C, 0, 5)]
    assert splits.asked == [*unread, SplitRange(B, 4, 5), SplitRange(C, 0, 1)]


# --- task runs side by side -----------------------------------------------------------------------


def parts_of(plan):
    return [(part.ranges, part.rows, part.completes) for part in plan.parts]


def test_task_runs_get_vnodes_with_about_the_same_rows_and_share_the_rate_limit():
    plan = planned(ends(90, 30, 30, 30), rate_limit=20, parallelism=2)
    assert plan.vnode_ranges == ((0, 0), (1, 3))
    assert parts_of(plan) == [
        ((KeyRange(None, (0, A, 9)),), 10, False),
        ((KeyRange((0,), (1, B, 3)), KeyRange((1,), (2, C, 2)), KeyRange((2,), (3, D, 2))), 10, False),
    ]


def test_a_task_run_that_needs_less_leaves_the_rest_to_the_others():
    plan = planned(ends(90, 0, 0, 4), rate_limit=20, parallelism=2)
    assert [(part.rows, part.completes) for part in plan.parts] == [(16, False), (4, True)]


def test_a_task_run_without_rows_or_share_has_no_part():
    """A rate limit of one row serves the others later (I4)."""
    plan = planned(ends(9, 9, 9, 9), rate_limit=1, parallelism=4)
    assert plan.vnode_ranges == ((0, 0), (1, 1), (2, 2), (3, 3))
    assert parts_of(plan) == [((KeyRange(None, (0, A, 0)),), 1, False)]


def previous(ranges):
    return barrier_of(parallelism=len(ranges), vnode_ranges=ranges)


def test_vnodes_stay_with_their_task_runs_as_long_as_all_have_work():
    before = ((0, 2), (3, 3))
    state = state_of(Completed(None, 1), InProgress((B, 0), 1), NotStarted(), InProgress((D, 0), 1))
    plan = planned(ends(1, 9, 9, 2), state=state, parallelism=2, previous=previous(before))
    assert plan.vnode_ranges == before
    state = state_of(*[Completed(None, 1)] * 3, InProgress((D, 0), 1))
    assert planned(ends(1, 9, 9, 2), state=state, parallelism=2, previous=previous(before)).vnode_ranges == before


def test_a_task_run_without_work_gets_vnodes_that_others_can_spare():
    state = state_of(InProgress((A, 0), 1), InProgress((B, 0), 1), Completed(None, 1), Completed(None, 1))
    plan = planned(ends(9, 9, 1, 1), state=state, parallelism=2, previous=previous(((0, 1), (2, 3))))
    assert plan.vnode_ranges == ((0, 0), (1, 3))


def test_another_parallelism_divides_the_vnodes_again():
    plan = planned(ends(9, 9, 9, 9), parallelism=4, previous=previous(((0, 1), (2, 3))))
    assert plan.vnode_ranges == ((0, 0), (1, 1), (2, 2), (3, 3))


def test_what_is_read_does_not_change_if_the_plan_is_made_again():
    """I2."""
    first, second = (planned(ends(9, 3, 0, 7), rate_limit=5, parallelism=2) for _ in range(2))
    assert first == second
