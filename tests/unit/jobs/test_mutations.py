"""Pausing, throttling and cancelling a job, and what its status says of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import (
    InvalidJobError,
    JobCancelledError,
    JobNotCreatedError,
)
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.location import location_of
from tests.builders import NOW
from tests.property.backfilling import Backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


CHANGES = {
    "pause": mutations.pause_job,
    "resume": mutations.resume_job,
    "throttle": lambda **options: mutations.throttle_job(7, **options),
    "cancel": mutations.cancel_job,
    "finish": protocol.finish_job,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_job_that_was_not_created_cannot_be_changed(lake, name):
    with pytest.raises(JobNotCreatedError, match="create it first"):
        CHANGES[name](store=BackfillStore(str(lake / "state")), requested_by="x")
    assert list(lake.iterdir()) == []


def test_every_change_says_who_asked_for_it_and_when(store):
    settings = mutations.pause_job(store=store, requested_by="o'brien", clock=lambda: NOW)
    assert (settings.paused, settings.requested_by, settings.requested_at) == (True, "o'brien", NOW)
    assert (settings.sequence, settings.change) == (2, SettingsChange.PAUSE)
    assert store.settings() == settings


@pytest.mark.parametrize("name", ["pause", "throttle", "cancel"])
def test_asking_twice_is_one_change(store, name):
    first = CHANGES[name](store=store, requested_by="one")
    assert CHANGES[name](store=store, requested_by="two") == first
    assert len(store.settings_history()) == 2


def test_resuming_what_is_not_paused_changes_nothing(store):
    assert mutations.resume_job(store=store, requested_by="x").sequence == 1


@pytest.mark.parametrize("rate_limit", [None, 0, 1, 10**9, 2**63 - 1])
def test_every_allowed_rate_limit_is_taken(store, rate_limit):
    settings = mutations.throttle_job(rate_limit, store=store, requested_by="x")
    assert (settings.rate_limit, settings.value) == (rate_limit, rate_limit)
    assert store.settings().rate_limit == rate_limit


@pytest.mark.parametrize("rate_limit", [-1, -(2**70), 2**63])
def test_a_rate_limit_that_is_not_allowed_is_refused(store, rate_limit):
    """I6: the same limits as in the definition."""
    with pytest.raises(InvalidJobError, match="rate_limit"):
        mutations.throttle_job(rate_limit, store=store, requested_by="x")
    assert len(store.settings_history()) == 1


def test_pause_and_rate_limit_are_independent_of_each_other(backfilling, store):
    """docs/concepts/rules.md#the-settings-decide."""
    mutations.pause_job(store=store, requested_by="x")
    mutations.throttle_job(0, store=store, requested_by="x")
    mutations.resume_job(store=store, requested_by="x")
    assert (store.settings().paused, store.settings().rate_limit) == (False, 0)
    assert backfilling.ask().barrier is None
    mutations.pause_job(store=store, requested_by="x")
    mutations.throttle_job(5, store=store, requested_by="x")
    assert (store.settings().paused, store.settings().rate_limit) == (True, 5)
    assert backfilling.ask().barrier is None
    mutations.resume_job(store=store, requested_by="x")
    assert backfilling.epoch().snapshot_read_row_count == 5


def test_changes_at_once_lose_nothing(store):
    with ThreadPoolExecutor(5) as threads:
        list(
            threads.map(
                lambda n: mutations.throttle_job(n, store=BackfillStore(store.location), requested_by="x"),
                range(100, 105),
            )
        )
    history = store.settings_history()
    assert [record.sequence for record in history] == list(range(1, 7))
    assert {record.rate_limit for record in history[1:]} == set(range(100, 105))


# --- starting paused ------------------------------------------------------------------------------


def test_a_job_that_was_created_paused_reads_no_snapshot_until_it_is_resumed(lake):
    backfilling = Backfilling(lake, rate_limit=5, paused=True)
    backfilling.orders.add(*range(10))
    settings = backfilling.create()
    assert settings.paused
    assert backfilling.ask().barrier is None
    assert backfilling.create(paused=False).paused
    mutations.resume_job(store=backfilling.store, requested_by="x")
    assert backfilling.epoch().snapshot_read_row_count == 5


@pytest.mark.parametrize("paused", [True, False])
def test_a_rebuild_begins_as_its_definition_says(backfilling, store, paused):
    mutations.pause_job(store=store, requested_by="x")
    assert backfilling.rebuild(paused=paused).paused is paused


# --- cancelling -----------------------------------------------------------------------------------


@pytest.fixture
def arranged(lake):
    """A job with an arrangement, of which one epoch is committed."""
    made = Backfilling(lake, rate_limit=3, strategy="arrangement", vnode_count=4)
    made.orders.add(*range(10))
    made.create()
    made.epoch()
    return made


def has_arrangement(backfilling):
    return ArrangementFiles(location_of(backfilling.store.settings())).exists()


def test_cancelling_drops_the_arrangement(arranged):
    assert has_arrangement(arranged)
    mutations.cancel_job(store=arranged.store, requested_by="x")
    assert not has_arrangement(arranged)


def test_an_arrangement_that_is_to_be_kept_outlives_a_cancellation(lake):
    made = Backfilling(lake, strategy="arrangement", vnode_count=4, keep_arrangement=True)
    made.orders.add(1)
    made.create()
    mutations.cancel_job(store=made.store, requested_by="x")
    assert has_arrangement(made)


def test_an_epoch_that_is_half_done_keeps_its_arrangement_until_it_is_completed(arranged):
    barrier = arranged.inject()
    mutations.cancel_job(store=arranged.store, requested_by="x")
    assert has_arrangement(arranged)
    assert arranged.inject() == barrier
    arranged.run(barrier)
    assert not has_arrangement(arranged)


@pytest.mark.parametrize("by", ["cancelling again", "asking for an epoch"])
def test_an_arrangement_that_a_dead_cancellation_left_is_dropped_later(arranged, by):
    store = arranged.store
    store.change_settings(
        lambda settings: settings.changed(SettingsChange.CANCEL, requested_by="x", requested_at=NOW, cancelled=True)
    )
    assert has_arrangement(arranged)
    if by == "cancelling again":
        mutations.cancel_job(store=store, requested_by="x")
    else:
        with pytest.raises(JobCancelledError):
            arranged.ask()
    assert not has_arrangement(arranged)


# --- repairing ------------------------------------------------------------------------------------


def test_the_same_repair_can_be_requested_again_once_it_was_pinned(backfilling, store):
    """What was repaired may be damaged again."""
    backfilling.epoch()
    first = mutations.repair_job(keys=[[0]], store=store, requested_by="x")
    assert mutations.repair_job(keys=[[0]], store=store, requested_by="x") == first
    backfilling.epoch()
    again = mutations.repair_job(keys=[[0]], store=store, requested_by="x")
    assert again.sequence == first.sequence + 1
    assert backfilling.inject().repair == again.repair


def test_a_repair_of_keys_needs_a_value_for_each_column(lake):
    """A shorter key is fine as a bound, and no row's key."""
    upstream = {"path": f"{lake}/orders", "key": ["status", "id"]}
    composite = Backfilling(lake, upstream=upstream)
    composite.orders.add(1, 2)
    composite.create()
    store = composite.store
    with pytest.raises(InvalidJobError, match="needs a value for each of status, id"):
        mutations.repair_job(keys=[["paid"]], store=store, requested_by="x")
    assert len(store.settings_history()) == 1
    assert mutations.repair_job(keys=[["paid", 1]], store=store, requested_by="x").repair.keys == (("paid", "1"),)


def test_a_repaired_key_is_written_as_spark_reads_it(backfilling, store):
    """Python reads more texts as numbers than Spark does, and Spark's types have limits."""
    assert mutations.repair_job(keys=["1_000", " 7"], store=store, requested_by="x").repair.keys == (("1000",), ("7",))
    with pytest.raises(InvalidJobError, match="is not between"):
        mutations.repair_job(keys=[2**63], store=store, requested_by="x")


@pytest.mark.parametrize(
    "ask", [lambda **to: mutations.repair_job(keys=[[0]], **to), lambda **to: mutations.rescale_job(1, **to)]
)
def test_of_a_cancelled_job_nothing_is_repaired_or_rescaled(store, ask):
    mutations.cancel_job(store=store, requested_by="vera")
    with pytest.raises(JobCancelledError, match="rebuild it to start over"):
        ask(store=store, requested_by="x")
    assert len(store.settings_history()) == 2


def test_a_repair_names_each_vnode_and_key_once_and_vnodes_in_order(lake):
    """I2: what is pinned does not depend on how it was asked for."""
    backfilling = Backfilling(lake, vnode_count=16)
    backfilling.orders.add(1)
    backfilling.create()
    asked = mutations.repair_job(vnodes=[9, "2", "2-3"], keys=[[7], 5, "7"], store=backfilling.store, requested_by="x")
    assert (asked.repair.vnodes, asked.repair.keys) == ((2, 3, 9), (("7",), ("5",)))
    assert asked.repair_sequence == asked.sequence == 2


def test_a_repair_has_something_to_repair_and_not_too_many_keys(store, monkeypatch):
    """I6: keys are pinned in the barrier one by one."""
    monkeypatch.setattr(mutations, "MOST_KEYS", 2)
    with pytest.raises(InvalidJobError, match="nothing is chosen; name vnodes, keys, or both"):
        mutations.repair_job(store=store, requested_by="x")
    with pytest.raises(InvalidJobError, match="3 keys are too many .* allowed are 2, or whole vnodes"):
        mutations.repair_job(keys=[1, 2, 3], store=store, requested_by="x")
    assert len(store.settings_history()) == 1
    assert len(mutations.repair_job(keys=[1, 2, 2], store=store, requested_by="x").repair.keys) == 2


def test_parallelism_is_at_most_the_number_of_vnodes(lake):
    backfilling = Backfilling(lake, strategy="arrangement")
    backfilling.orders.add(1)
    backfilling.create()
    for parallelism in (0, 5):
        with pytest.raises(InvalidJobError, match="allowed are 1 to 4, the job's vnode_count"):
            mutations.rescale_job(parallelism, store=backfilling.store, requested_by="x")
    settings = mutations.rescale_job(4, store=backfilling.store, requested_by="x")
    assert (settings.parallelism, settings.value, settings.change) == (4, 4, SettingsChange.RESCALE)


def test_one_position_for_all_vnodes_is_not_shared(store):
    """I6: and it has one task run already."""
    with pytest.raises(InvalidJobError, match="one task run reads them all; rebuild the job with strategy arrangement"):
        mutations.rescale_job(2, store=store, requested_by="x")
    assert mutations.rescale_job(1, store=store, requested_by="x").sequence == 1


# --- cancelling -----------------------------------------------------------------------------------


def test_a_cancelled_job_cannot_be_changed_any_more(store):
    mutations.cancel_job(store=store, requested_by="vera")
    for name in ("pause", "resume", "throttle"):
        with pytest.raises(JobCancelledError, match="rebuild it to start over"):
            CHANGES[name](store=store, requested_by="x")
    assert mutations.cancel_job(store=store, requested_by="x").requested_by == "vera"


def test_a_cancelled_jobs_view_stays_as_the_last_epoch_left_it(backfilling, store):
    backfilling.epoch()
    pinned = backfilling.inject()
    mutations.cancel_job(store=store, requested_by="vera")
    backfilling.run(pinned)
    rows = backfilling.rows()
    with pytest.raises(JobCancelledError, match="was cancelled by vera"):
        backfilling.ask()
    assert backfilling.rows() == rows
    backfilling.assert_truth()
