"""Injecting a barrier while changes wait until the view is finished."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.protocol import mutations
from tests.builders import NOW, committed_at
from tests.unit.protocol.inject_helpers import clean_up, over

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def waiting(lake):
    """A job over the orders 0 to 8, three rows an epoch, whose changes wait; two epochs are done, and all changed."""
    backfilling = over(lake, *range(9), rate_limit=3, strategy="no_shuffle", visibility="on_finish")
    for amount in (50, 60):
        backfilling.epoch()
        backfilling.orders.change(range(9), amount=amount)
    return backfilling


def test_changes_wait_until_the_last_vnode_completes(waiting):
    """I1 at the epoch that publishes."""
    first, second = waiting.store.barriers()
    assert (first.publishes, second.publishes) == (True, False)
    last = waiting.inject()
    assert (last.publishes, last.completes) == (True, True)
    assert {read.offset.number for read in last.view_before} == {0}
    assert (last.upstream.from_offset.number, last.changes_after.number) == (1, 0)
    commit = waiting.run(last)
    assert (commit.upstream_output_row_count, commit.snapshot_read_row_count) == (6, 3)
    waiting.assert_truth()
    waiting.orders.change([0], amount=70)
    assert waiting.inject().publishes


def test_chunks_are_read_at_one_version_while_changes_wait(waiting):
    """The files are as large as they were, and later changes wait for all chunks alike."""
    first, second = waiting.store.barriers()
    assert (first.chunk_offset.number, second.chunk_offset.number, second.upstream.to_offset.number) == (0, 0, 1)
    assert len(second.view_after) == 1
    last = waiting.inject()
    assert (last.older_offset, last.chunk_offset.number) == (None, 2)


def test_rows_added_after_the_last_chunk_are_read_at_the_newest_version(lake):
    """I4: at the older version nothing is left to read, at the newest there is."""
    backfilling = over(lake, *range(6), rate_limit=3, strategy="no_shuffle", visibility="on_finish")
    backfilling.epoch()
    backfilling.orders.add(*range(6, 12))
    backfilling.orders.change([0, 4, 7], amount=50)
    second = backfilling.inject()
    assert (second.publishes, second.completes, second.chunk_offset.number) == (False, False, 2)
    backfilling.run(second)
    assert {read.offset.number for read in second.view_after} == {0, 2}
    backfilling.orders.change([8, 11], amount=60)
    third = backfilling.inject()
    assert (third.publishes, third.chunk_offset.number) == (False, 2)
    backfilling.run(third)
    backfilling.finish()


def test_an_arrangement_has_its_rows_as_of_the_newest_version(lake):
    backfilling = over(lake, *range(9), rate_limit=2, visibility="on_finish", strategy="arrangement")
    backfilling.epoch()
    backfilling.epoch()
    backfilling.orders.change(range(9), amount=50)
    barrier = backfilling.inject()
    assert (barrier.publishes, barrier.older_offset, bool(barrier.parts)) == (False, None, True)


@pytest.fixture
def arranged(lake):
    """A job over the orders 0 to 8 with a position per vnode, two rows an epoch, whose changes wait."""
    return over(lake, *range(9), rate_limit=2, visibility="on_finish", strategy="arrangement")


def test_an_epoch_that_reads_no_chunk_pins_no_version_for_it(waiting):
    """I2: it would be part of the digest."""
    mutations.pause_job(store=waiting.store, requested_by="x")
    barrier, _ = waiting.ask().newest
    assert (barrier.epoch, barrier.has_window, barrier.parts, barrier.older_offset) == (3, True, (), None)


def test_nothing_waits_before_anything_was_read(arranged):
    assert arranged.inject().publishes


def test_changes_that_wait_are_no_work_for_an_arrangement_either(arranged):
    """It has those of the window already, and the view gets none before it is finished."""
    arranged.epoch()
    arranged.orders.change(range(9), amount=50)
    assert not arranged.inject().publishes
    arranged.epoch()
    mutations.pause_job(store=arranged.store, requested_by="x")
    assert arranged.ask().reason == "paused, and the upstream has no changes after offset 1"
    assert arranged.ask().barrier is None
    mutations.resume_job(store=arranged.store, requested_by="x")
    arranged.finish()


def test_changes_wait_until_rows_are_as_of_too_many_versions(arranged, monkeypatch):
    """Each makes the condition of the merge longer."""
    monkeypatch.setattr("airflow_backfill_provider.core.visibility.MOST_OFFSETS", 2)
    published = []
    for amount in range(4):
        barrier = arranged.inject()
        published.append((len(barrier.view_before), barrier.publishes))
        arranged.run(barrier)
        arranged.assert_truth()
        arranged.orders.change(range(9), amount=amount + 50)
    assert published == [(0, True), (1, False), (2, True), (1, False)]


def test_a_paused_job_that_read_nothing_keeps_its_arrangement_current(lake):
    """I1: a window that is passed without an engine would be missing from the arrangement for ever."""
    backfilling = over(lake, *range(6), rate_limit=2, strategy="arrangement")
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([1, 4], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.read_before, barrier.has_window) == ((), (), True)
    backfilling.run(barrier)
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()


def test_changes_wait_no_longer_than_half_of_what_the_upstream_keeps(waiting):
    table = DeltaTable(waiting.orders.path)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 8 hours"})
    committed_at(waiting.orders.path, 0, NOW - dt.timedelta(hours=4))
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)
    waiting.run(barrier)
    waiting.assert_truth()
    assert not waiting.inject().publishes


def test_changes_that_must_not_wait_any_longer_are_applied_without_a_new_version(waiting):
    """Paused for days, on an upstream that stands still: the changes would be gone."""
    mutations.pause_job(store=waiting.store, requested_by="x")
    assert waiting.ask().reason == "paused, and changes of what was read wait until the view is finished"
    assert waiting.ask().barrier is None
    committed_at(waiting.orders.path, 0, NOW - dt.timedelta(days=4))
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.has_window, barrier.parts) == (True, False, ())
    waiting.run(barrier)
    waiting.assert_truth()
    assert waiting.ask().barrier is None


def test_a_repair_publishes(waiting):
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    mutations.repair_job(keys=[[0]], vnodes=[], store=waiting.store, requested_by="x")
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)
    waiting.run(barrier)
    waiting.assert_truth()


def test_changes_that_are_gone_before_they_were_applied_are_refused(waiting):
    """I6."""
    clean_up(waiting, 1)
    with pytest.raises(ChangeFeedGapError, match="from version 1 on"):
        waiting.inject()


def test_changes_of_unknown_age_are_applied_at_once(waiting):
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    clean_up(waiting, 0)
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)
