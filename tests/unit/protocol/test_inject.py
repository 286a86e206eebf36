"""Injecting a barrier: what is pinned."""

from __future__ import annotations

import shutil

import pytest

from airflow_backfill_provider.core.epoch.barrier import PinnedRange
from airflow_backfill_provider.core.errors import UpstreamReplacedError
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import NOW, part_of, restore_copy
from tests.property.backfilling import Backfilling
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import TASK, over

prepared = inject_helpers.prepared
backfilling = inject_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_the_first_barrier_pins_everything_that_the_epoch_depends_on(backfilling):
    """I2."""
    barrier = backfilling.inject(TASK)
    settings = backfilling.store.settings()
    assert (barrier.job, barrier.incarnation) == ("paid_orders", settings.incarnation)
    assert (barrier.epoch, barrier.prev_epoch) == (1, 0)
    window = barrier.upstream
    assert (window.from_offset.number, window.to_offset.number, window.row_count) == (-1, 0, 7)
    assert (window.table_id, window.watermark) == (
        settings.upstream.table_id,
        backfilling.orders.table.watermark(offset_of(0)),
    )
    assert barrier.definition == settings.definition_digest
    assert barrier.parts == (part_of(None, ("2",)),)
    assert (barrier.read_before, barrier.completes) == ((), False)
    assert (barrier.vnode_ranges, barrier.parallelism) == ((), 1)
    assert (barrier.rate_limit, barrier.paused, barrier.mutations, barrier.settings_sequence) == (3, False, (), 1)
    assert barrier.injected_by == TASK
    assert barrier.injected_at > NOW
    assert backfilling.store.barriers() == [barrier]


def test_the_next_barrier_continues_where_the_one_before_ended(backfilling):
    """
    Windows are half-open, ``(from, to]``; changes are filtered by the old position.

    See docs/concepts/rules.md#changes-are-filtered-by-the-old-position.
    """
    backfilling.epoch()
    backfilling.orders.add(100)
    backfilling.orders.add(101)
    barrier = backfilling.inject()
    assert (barrier.epoch, barrier.prev_epoch) == (2, 1)
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (0, 2)
    assert barrier.parts == (part_of(("2",), ("5",)),)
    assert barrier.read_before == (PinnedRange(after=None, up_to=("2",)),)
    assert not barrier.completes


def test_rows_of_one_version_are_as_of_where_the_window_begins_and_pinned_nowhere_else(backfilling):
    backfilling.epoch()
    backfilling.orders.add(100)
    assert backfilling.inject().read_as_of == ()


def test_the_parts_of_several_task_runs_complete_the_job_together(lake):
    """I4: also where no part of them does."""
    barrier = over(lake, *range(9), strategy="arrangement", parallelism=3, rate_limit=None).inject()
    assert (len(barrier.parts), barrier.completes) == (3, True)


def test_an_upstream_that_was_restored_from_an_older_copy_is_refused(backfilling):
    """Its id is the same, and what it writes next has numbers that were read already."""
    copy = backfilling.lake / "copy"
    shutil.copytree(backfilling.orders.path, copy)
    backfilling.orders.add(20)
    backfilling.epoch()
    restore_copy(copy, backfilling.orders.path)
    with pytest.raises(UpstreamReplacedError, match="ends with version 0, but the job has read up to version 1"):
        backfilling.ask()
    backfilling.orders.add(21)
    backfilling.orders.add(22)
    with pytest.raises(UpstreamReplacedError, match="version 1 of .* was written at"):
        backfilling.ask()


def test_the_last_chunk_has_no_upper_bound_and_later_barriers_have_no_chunk(backfilling):
    """docs/concepts/rules.md#changes-are-filtered-by-the-old-position and #the-last-chunk-has-no-upper-bound."""
    for _ in range(2):
        backfilling.epoch()
    last = backfilling.inject()
    assert (last.parts, last.completes) == ((part_of(("5",), None),), True)
    backfilling.run(last)
    backfilling.orders.add(100)
    after = backfilling.inject()
    assert (after.parts, after.completes) == ((), True)
    assert after.read_before == (PinnedRange(after=None, up_to=None),)


@pytest.mark.parametrize(("rate_limit", "rows"), [(None, [3]), (3, [3]), (2**63 - 1, [3]), (2, [2, 1]), (1, [1, 1, 1])])
def test_every_rate_limit_is_kept_and_completes_the_job(lake, rate_limit, rows):
    """I4: about rows ÷ rate limit epochs, however small the rate limit."""
    backfilling = over(lake, *range(3), rate_limit=rate_limit)
    assert [commit.snapshot_read_row_count for commit in backfilling.finish_watched()] == rows


def test_a_rate_limit_of_zero_reads_nothing_until_it_is_raised(lake):
    """I4: paused by rate limit."""
    backfilling = over(lake, 1, 2, rate_limit=0)
    assert backfilling.ask().barrier is None
    assert backfilling.ask().reason == "the rate limit is 0, and nothing was read yet that could change"
    mutations.throttle_job(1, store=backfilling.store, requested_by="x")
    assert len(backfilling.finish()) == 2


def test_an_empty_upstream_completes_at_once_and_then_takes_every_change(lake):
    """docs/concepts/rules.md#no-position-is-not-the-null-key."""
    backfilling = over(lake)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.completes) == ((part_of(None, None),), True)
    commit = backfilling.run(barrier)
    assert (commit.completed, commit.snapshot_read_row_count) == (True, 0)
    assert set(backfilling.store.state().vnodes) == {Completed(None, 0)}
    backfilling.orders.add(5, None)
    backfilling.finish()
    assert [row[0] for row in backfilling.rows()] == [None, 5]


@pytest.mark.parametrize("key", [7, None])
@pytest.mark.parametrize("rate_limit", [None, 1])
def test_a_one_row_upstream_completes_at_once(lake, key, rate_limit):
    """docs/concepts/rules.md#upstreams-without-rows-and-of-one-row; a null key is a key."""
    backfilling = over(lake, key, rate_limit=rate_limit)
    assert [commit.completed for commit in backfilling.finish()] == [True]
    assert [row[0] for row in backfilling.rows()] == [key]


def test_the_position_of_a_null_key_is_a_position(lake):
    """
    It lets the null key's changes through, and only those.

    See docs/concepts/rules.md#no-position-is-not-the-null-key.
    """
    backfilling = over(lake, None, 1, 2, rate_limit=1)
    backfilling.epoch()
    assert set(backfilling.store.state().vnodes) == {InProgress((None,), 1)}
    backfilling.orders.change([None, 2], amount=50)
    barrier = backfilling.inject()
    assert barrier.read_before == (PinnedRange(after=None, up_to=(None,)),)
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (1, 1)
    backfilling.assert_truth()


def test_a_barrier_has_the_planners_warnings(lake):
    backfilling = Backfilling(lake, rate_limit=50, strategy="no_shuffle")
    for start in range(20):
        backfilling.orders.add(*range(start, 400, 20))
    backfilling.create()
    barrier = backfilling.inject()
    assert len(barrier.warnings) == 1
    assert "not laid out in key order" in barrier.warnings[0]
