"""Injecting a barrier while changes wait until the view is finished."""

from __future__ import annotations

import datetime as dt

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import ChangeFeedGapError, QueryFailedError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import NOW, PAID, committed_at
from tests.property.backfilling import Backfilling
from tests.property.memory_queries import BAD
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


@pytest.mark.exhaustive
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


@pytest.fixture
def arranged(lake):
    """A job over the orders 0 to 8 with a position per vnode, two rows an epoch, whose changes wait."""
    return over(lake, *range(9), rate_limit=2, visibility="on_finish", strategy="arrangement")


def versions_of_arrangement(backfilling):
    return DeltaTable(location_of(backfilling.store.settings())).version()


@pytest.mark.exhaustive
def test_chunks_of_an_arrangement_are_read_at_one_version_too(arranged):
    """What is not read yet waits like what was read, and comes into the arrangement with the last epochs."""
    before = versions_of_arrangement(arranged)
    for amount in (40, 50, 60):
        arranged.orders.change(range(9), amount=amount)
        barrier = arranged.inject()
        assert (barrier.publishes, barrier.chunk_offset.number, bool(barrier.parts)) == (False, 0, True)
        arranged.run(barrier)
        arranged.assert_truth()
    assert versions_of_arrangement(arranged) == before
    arranged.finish()
    assert versions_of_arrangement(arranged) > before


def test_rows_added_after_the_chunks_of_an_arrangement_end_the_waiting(lake):
    """I1: the arrangement and the view get their changes at once, and from then on wait for those after them."""
    backfilling = over(lake, *range(6), rate_limit=3, visibility="on_finish", strategy="arrangement", vnode_count=1)
    backfilling.epoch()
    backfilling.orders.add(*range(6, 14))
    backfilling.orders.change([0, 4, 7], amount=50)
    second = backfilling.inject()
    assert (second.publishes, second.completes, second.chunk_offset.number) == (True, False, 2)
    backfilling.run(second)
    backfilling.assert_truth()
    backfilling.orders.change([0, 8, 11], amount=60)
    third = backfilling.inject()
    assert (third.publishes, third.completes, third.chunk_offset.number) == (False, False, 2)
    backfilling.run(third)
    backfilling.finish()


def test_a_chunk_of_an_arrangement_that_was_given_up_ends_the_waiting(lake):
    """I1: the next one is read at a newer version, which may have the correction."""
    backfilling = Backfilling(
        lake, rate_limit=2, query=PAID, visibility="on_finish", strategy="arrangement", vnode_count=1
    )
    backfilling.orders.add(*range(9))
    backfilling.orders.change([3], amount=BAD)
    backfilling.create()
    backfilling.epoch()
    with pytest.raises(QueryFailedError):
        backfilling.epoch()
    backfilling.orders.change([0, 3, 7], amount=60)
    barrier = backfilling.inject()
    assert (barrier.publishes, barrier.completes, barrier.chunk_offset.number) == (True, False, 2)
    backfilling.run(barrier)
    backfilling.assert_truth()
    backfilling.finish()


@pytest.mark.exhaustive
def test_the_first_chunk_of_an_arrangement_that_was_given_up_ends_the_waiting(lake):
    """I1: nothing was read yet, and the arrangement gets the changes since its creation."""
    backfilling = Backfilling(lake, rate_limit=2, query=PAID, visibility="on_finish", strategy="arrangement")
    backfilling.orders.add(*range(9), amount=BAD)
    backfilling.create()
    backfilling.orders.change(range(4), amount=50)
    with pytest.raises(QueryFailedError):
        backfilling.epoch()
    backfilling.orders.change(range(4, 9), amount=60)
    barrier = backfilling.inject()
    assert (barrier.publishes, barrier.read_before, barrier.chunk_offset.number) == (True, (), 2)
    backfilling.run(barrier)
    backfilling.assert_truth()
    backfilling.finish()


def test_an_epoch_that_reads_no_chunk_pins_no_version_for_it(waiting):
    """I2: it would be part of the digest."""
    mutations.pause_job(store=waiting.store, requested_by="x")
    barrier, _ = waiting.ask().newest
    assert (barrier.epoch, barrier.has_window, barrier.parts, barrier.older_offset) == (3, True, (), None)


def test_nothing_waits_before_anything_was_read(lake):
    assert over(lake, *range(9), strategy="no_shuffle", visibility="on_finish").inject().publishes


@pytest.mark.exhaustive
def test_changes_that_wait_are_no_work_for_an_arrangement_either(arranged):
    """Neither it nor the view gets them before the view is finished."""
    arranged.orders.change(range(9), amount=50)
    assert not arranged.inject().publishes
    arranged.epoch()
    mutations.pause_job(store=arranged.store, requested_by="x")
    assert arranged.ask().reason == "paused, and changes of what was read wait until the view is finished"
    assert arranged.ask().barrier is None
    mutations.resume_job(store=arranged.store, requested_by="x")
    arranged.finish()


@pytest.mark.exhaustive
def test_changes_wait_until_rows_are_as_of_too_many_versions(lake, monkeypatch):
    """Each makes the condition of the merge longer."""
    monkeypatch.setattr("airflow_backfill_provider.core.job.visibility.MOST_OFFSETS", 2)
    backfilling = over(lake, *range(6), rate_limit=3, strategy="no_shuffle", visibility="on_finish")
    published = []
    for first in (6, 12, 18, 24):
        barrier = backfilling.inject()
        published.append((len(barrier.view_before), barrier.publishes))
        backfilling.run(barrier)
        backfilling.assert_truth()
        backfilling.orders.add(*range(first, first + 6))
        backfilling.orders.change([0], amount=first)
    assert published == [(0, True), (1, False), (2, True), (1, False)]


@pytest.mark.parametrize("visibility", Visibility)
def test_a_paused_job_that_read_nothing_keeps_its_arrangement_current(lake, visibility):
    """I1: a window that is passed without an engine would be missing from the arrangement for ever."""
    backfilling = over(lake, *range(6), rate_limit=2, strategy="arrangement", visibility=visibility)
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
