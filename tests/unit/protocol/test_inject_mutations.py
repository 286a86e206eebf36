"""Injecting a barrier that pins repairs and changes of the settings."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR
from airflow_backfill_provider.jobs import mutations
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import TASK, minute, over

prepared = inject_helpers.prepared
backfilling = inject_helpers.backfilling
dated = inject_helpers.dated

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.mark.parametrize("number", [1, -1])
def test_a_repair_is_pinned_by_a_run_whose_window_is_covered(dated, number):
    """It belongs to no interval; a catch-up would delay it until the schedule reaches the offset of the view."""
    dated.run(dated.inject(until=minute(3)))
    dated.view.rows.append(dated.view.rows[0])
    mutations.repair_job(keys=[[0]], store=dated.store, requested_by="x")
    barrier = dated.inject(TASK, until=minute(number))
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (3, 3)
    assert barrier.repair.keys == (("0",),)
    dated.run(barrier)
    dated.assert_truth()
    assert dated.ask(until=minute(number)).barrier is None


def test_a_repair_before_the_first_epoch_waits_for_the_upstream_to_begin(dated):
    mutations.repair_job(keys=[[0]], store=dated.store, requested_by="x")
    assert "no offset as old as" in dated.ask(until=minute(-1)).reason
    assert dated.inject(until=minute(0)).repair.keys == (("0",),)


def test_a_barrier_pins_all_repairs_that_were_requested_since_the_one_before(backfilling):
    """I1: also a repair that another mutation followed."""
    backfilling.epoch()
    mutations.repair_job(keys=[[0]], store=backfilling.store, requested_by="x")
    mutations.repair_job(vnodes=[3], store=backfilling.store, requested_by="y")
    mutations.throttle_job(2, store=backfilling.store, requested_by="z")
    repair = backfilling.inject().repair
    assert (repair.vnodes, repair.keys) == ((3,), (("0",),))


def test_a_repair_before_anything_was_read_removes_rows_that_no_epoch_wrote(backfilling):
    """I1: the view has no rows that were not read."""
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.view.rows.append(((3,), (3, 100)))
    mutations.repair_job(vnodes=["0-3"], store=backfilling.store, requested_by="x")
    barrier = backfilling.inject()
    assert (barrier.read_before, barrier.parts, bool(barrier.repair)) == ((), (), True)
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, backfilling.rows()) == (0, [])


def test_a_barrier_pins_who_changed_what_and_when_since_the_one_before(backfilling):
    """
    The next barrier pins mutations, once each and in order.

    See docs/concepts/rules.md#mutations-are-carried-by-the-next-barrier.
    """
    store = backfilling.store
    backfilling.epoch()
    mutations.throttle_job(5, store=store, requested_by="vera", clock=backfilling.clock)
    mutations.pause_job(store=store, requested_by="o'brien", clock=backfilling.clock)
    mutations.resume_job(store=store, requested_by=str(TASK), clock=backfilling.clock)
    barrier = backfilling.inject()
    assert [(m.mutation, m.value, m.requested_by) for m in barrier.mutations] == [
        (Mutation.THROTTLE, 5, "vera"),
        (Mutation.PAUSE, None, "o'brien"),
        (Mutation.RESUME, None, str(TASK)),
    ]
    times = [m.requested_at for m in barrier.mutations]
    assert times == sorted(times)
    assert times[-1] < barrier.injected_at
    assert (barrier.rate_limit, barrier.paused, barrier.settings_sequence) == (5, False, 4)
    backfilling.run(barrier)
    backfilling.orders.add(50)
    assert backfilling.inject().mutations == ()


def test_a_barrier_without_a_change_has_the_settings_that_it_was_pinned_under(backfilling):
    """Otherwise the next one would pin older changes once more."""
    mutations.throttle_job(2, store=backfilling.store, requested_by="x")
    backfilling.epoch()
    backfilling.epoch()
    assert (backfilling.store.pinned(2).settings_sequence, backfilling.inject().mutations) == (2, ())


def test_a_barrier_has_the_parallelism_also_if_no_task_run_reads(lake):
    backfilling = over(lake, *range(6), strategy="arrangement", parallelism=3)
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([1], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.parallelism, len(barrier.vnode_ranges)) == ((), 3, 3)


@pytest.mark.parametrize(
    ("chosen", "warned"),
    [({"keys": [[0]]}, True), ({"vnodes": ["0-2"]}, True), ({"vnodes": ["0-3"], "keys": [[0]]}, False)],
)
def test_a_repair_of_a_part_says_that_the_rest_is_taken_as_it_is(backfilling, chosen, warned):
    """I6: another writer's commits to the rest of the view are not looked for."""
    assert backfilling.inject().warnings == ()
    backfilling.epoch()
    mutations.repair_job(store=backfilling.store, requested_by="x", **chosen)
    assert backfilling.inject().warnings == ((PARTIAL_REPAIR,) if warned else ())


def test_a_change_of_settings_does_not_change_a_pinned_barrier(backfilling):
    """I2: it takes effect with the next one."""
    pinned = backfilling.inject()
    mutations.throttle_job(1, store=backfilling.store, requested_by="x")
    assert backfilling.inject() == pinned
    assert backfilling.run(pinned).snapshot_read_row_count == 3
    following = backfilling.inject()
    assert (following.rate_limit, len(following.mutations)) == (1, 1)
    assert backfilling.run(following).snapshot_read_row_count == 1
