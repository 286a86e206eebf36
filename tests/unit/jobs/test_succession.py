"""A rebuild beside the view: its beginning, its handover, its end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError, NotFinishedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.progress import Completed
from airflow_backfill_provider.jobs import creation, mutations, revert, succession
from airflow_backfill_provider.jobs.successor_tables import active_store
from tests.builders import PAID
from tests.dying import dies_at
from tests.property.backfilling import TESTER

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


DEAD_LETTERS = {"unreadable_records": "dead_letter"}


def grow(backfilling, **changes):
    latter = BackfillJob(**{**backfilling.job.model_dump(mode="json"), "query": PAID, **changes})
    succession.grow_successor(
        latter,
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=backfilling.engine,
        requested_by="ann",
        clock=backfilling.clock,
    )
    return latter


def grown(backfilling):
    """Run all epochs of the rebuild."""
    job = backfilling.backfill.successor
    while barrier := protocol.inject_barrier(
        store=job.store, upstream=backfilling.orders.table, requester=TESTER, clock=backfilling.clock
    ).barrier:
        protocol.run_epoch(barrier, store=job.store, engine=backfilling.engine(), clock=backfilling.clock)
    return job


def test_the_rebuild_is_a_job_of_its_own_that_nobody_reads(served):
    latter = grow(served)
    growing = served.backfill.successor
    assert growing.settings().strategy == "snapshot", "changes may wait, whatever readers of the view see"
    assert growing.job.visibility is Visibility.ON_FINISH
    assert growing.job.view_location.startswith(served.job.state)
    assert creation.require_job(latter, served.store) == creation.require_job(served.job, served.store)
    with pytest.raises(InvalidJobError, match="another query, vnode_count"):
        creation.require_job(latter.model_copy(update={"vnode_count": 8}), served.store)


def test_a_job_whose_changes_cannot_wait_grows_as_it_is(served):
    """Rows that may move between vnodes could be read twice."""
    upstream = {**served.job.model_dump(mode="json")["upstream"], "distribution_key": ["status"]}
    grow(served, upstream=upstream, strategy="arrangement")
    growing = served.backfill.successor
    assert (growing.job.visibility, growing.settings().strategy) == (Visibility.EVERY_EPOCH, "arrangement")


def test_the_handover_pins_the_rows_and_the_state_to_go_on_from(served):
    served.orders.change([3], status="draft")
    grow(served)
    grown(served)
    before = served.store.last_epoch()
    barrier = served.inject()
    settings = served.store.settings()
    assert (settings.change, settings.requested_by) == (SettingsChange.HAND_OVER, "tester")
    assert (settings.base_epoch, settings.successor) == (before, None)
    assert settings.first_point.offset == served.orders.table.latest()
    assert all(isinstance(progress, Completed) for progress in served.store.state().vnodes)
    assert served.store.state().epoch == before
    assert (barrier.epoch, barrier.incarnation, barrier.parts) == (before + 1, settings.incarnation, ())
    assert not barrier.has_window, "there is nothing new, but the view's rows are to be replaced"
    assert "first_rows" in served.run(barrier).seconds
    assert len(served.rows()) == 9
    served.assert_truth()
    assert protocol.finish_job(store=served.store, requested_by="x").finished_epoch == barrier.epoch


def hand_over(backfilling, served=None):
    store = backfilling.store
    served = served or backfilling.orders.table.latest()
    return succession.hand_over(store, store.settings(), served, requested_by="x", now=backfilling.clock())


def test_the_place_is_taken_only_by_a_view_that_is_as_new(served):
    """A reader never goes back in time."""
    grow(served)
    grown(served)
    served.orders.change([3], amount=7)
    assert not hand_over(served), "it lacks the change"
    grown(served)
    assert hand_over(served)


@pytest.mark.exhaustive
def test_offsets_of_another_table_say_nothing_about_the_place(served):
    """The upstream was replaced: nothing keeps the served view fresh, and the new table has fewer versions."""
    for amount in range(3):
        served.orders.change([3], amount=amount)
    served.finish()
    shutil.rmtree(served.orders.path)
    served.orders.rows.clear()
    served.orders.add(100, 101)
    grow(served)
    grown(served)
    served.epoch()
    assert [row[0] for row in served.rows()] == [100, 101]


def test_a_rebuild_over_a_table_that_was_replaced_meanwhile_starts_over(served):
    """Its epochs would be refused for ever, and asking again for the same definition would change nothing."""
    grow(served)
    shutil.rmtree(served.orders.path)
    served.orders.rows.clear()
    served.orders.add(100, 101)
    grow(served)
    grown(served)
    served.epoch()
    assert [row[0] for row in served.rows()] == [100, 101]


def test_an_unfinished_rebuild_does_not_take_the_place(served):
    grow(served, rate_limit=3)
    assert not hand_over(served), "it has read nothing"
    job = served.backfill.successor
    barrier = protocol.inject_barrier(
        store=job.store, upstream=served.orders.table, requester=TESTER, clock=served.clock
    ).barrier
    assert not hand_over(served), "nothing is committed"
    protocol.run_epoch(barrier, store=job.store, engine=served.engine(), clock=served.clock)
    assert not hand_over(served), "rows are left"


def test_a_job_is_not_finished_before_its_view_has_the_rows(served):
    """The state is Completed from the beginning, and an epoch of the former incarnation completed it, too."""
    grow(served)
    grown(served)
    served.inject()
    assert protocol.completing_commit(served.store, served.store.settings()) is None
    with pytest.raises(NotFinishedError, match="run more epochs"):
        protocol.finish_job(store=served.store, requested_by="x")


@pytest.mark.parametrize("point", [CrashPoint.AFTER_SUCCESSION_STATE, CrashPoint.AFTER_SUCCESSION_SETTINGS])
def test_a_handover_that_died_is_completed_by_the_next_request(served, point):
    grow(served)
    grown(served)
    with dies_at(point):
        served.ask()
    served.epoch()
    served.assert_truth()
    assert served.store.settings().job["query"] == PAID


@pytest.mark.exhaustive
def test_an_interval_that_ended_before_does_not_hold_the_handover_back(served):
    """The rows to begin with belong to no data interval."""
    grow(served)
    served.orders.change([3], amount=7)
    grown(served)
    barrier = served.inject(until=served.orders.table.committed_at(served.orders.table.latest()).replace(year=2000))
    assert barrier.incarnation == served.store.settings().incarnation
    assert not barrier.has_window


def test_what_steers_reading_steers_the_rebuild(served):
    grow(served)
    before = served.store.settings()
    for change in (mutations.pause_job, mutations.resume_job):
        assert (
            change(store=served.store, requested_by="x").incarnation
            == active_store(served.store).settings().incarnation
        )
    mutations.throttle_job(7, store=served.store, requested_by="x")
    assert active_store(served.store).settings().rate_limit == 7
    assert served.store.settings() == before
    revert.give_up_successor(served.store, requested_by="x")
    assert mutations.throttle_job(7, store=served.store, requested_by="x").incarnation == before.incarnation


@pytest.mark.exhaustive
def test_the_status_shows_both(served):
    grow(served)
    status = served.backfill.status()
    assert (status.finished, status.rebuild.finished, status.rebuild.rows_read) == (True, False, 0)
    grown(served)
    assert served.backfill.read().summary().rebuild.finished
    served.finish()
    assert served.backfill.status().rebuild is None


def test_the_tables_of_the_rebuild_go_when_the_view_is_finished(served):
    grow(served)
    folder = Path(served.store.settings().successor.folder)
    grown(served)
    served.finish()
    assert folder.exists(), "another attempt of the epoch may read it"
    protocol.finish_job(store=served.store, requested_by="x")
    assert not folder.exists()


def test_only_a_finished_view_that_stays_where_it_is_is_kept_in_service(backfilling):
    """Another one is not whole, or not fresh, or is not the one that readers know."""
    with pytest.raises(NotFinishedError, match="no whole view to keep in service"):
        grow(backfilling)
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    with pytest.raises(InvalidJobError, match="a rebuild keeps the view at"):
        grow(backfilling, materialized_view=f"{backfilling.job.state}_elsewhere")
    with pytest.raises(InvalidJobError, match="upstream.key: .* has no column 'number'"):
        grow(backfilling, upstream={"path": backfilling.orders.path, "key": ["number"]})
    assert backfilling.store.settings().successor is None
    mutations.cancel_job(store=backfilling.store, requested_by="x")
    with pytest.raises(JobCancelledError, match="no epoch keeps its view fresh"):
        grow(backfilling)


def test_a_rebuild_ends_with_whatever_makes_it_needless(served):
    """It is replaced by another one, overtaken by a rebuild that empties the view, or cancelled with its job."""
    grow(served)
    first = Path(served.store.settings().successor.folder)
    incarnation = served.backfill.successor.settings().incarnation
    grow(served)
    assert served.backfill.successor.settings().incarnation == incarnation, "asking again changes nothing"
    grow(served, rate_limit=9)
    second = Path(served.store.settings().successor.folder)
    assert (first.exists(), second.exists()) == (False, True)
    mutations.cancel_job(store=served.store, requested_by="x")
    assert not second.exists()

    served.rebuild()
    served.finish()
    protocol.finish_job(store=served.store, requested_by="x")
    grow(served)
    third = Path(served.store.settings().successor.folder)
    served.rebuild(query=PAID)
    assert not third.exists()
    served.finish()


def test_a_crash_before_the_tables_exist_is_completed(served, monkeypatch):
    """The settings know the rebuild first; whoever comes next creates its tables."""
    with monkeypatch.context() as dying:
        dying.setattr(creation, "create_job", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            grow(served)
    assert not served.backfill.successor.store.created()
    assert served.backfill.status().rebuild is None
    assert served.ask().reason, "the job's own epochs go on"
    succession.create_successor(
        served.store, upstream=served.orders.table, engine=served.engine, requested_by="x", clock=served.clock
    )
    grown(served)
    served.epoch()
    served.assert_truth()


def test_a_job_without_a_rebuild_has_none_to_create(served):
    with pytest.raises(InvalidJobError, match="has no successor; rebuild it with --keep-serving first"):
        succession.create_successor(
            served.store, upstream=served.orders.table, engine=served.engine, requested_by="x", clock=served.clock
        )


@pytest.mark.parametrize(
    ("upstream", "kept"),
    [
        ({"path": "/lake/events", "append_only": True}, "the order of its files"),
        ({"files": {"path": "/landing", "format": "json", "schema": "id BIGINT"}}, "the order of its files"),
        (
            {
                "kafka": {
                    "connection": "x",
                    "topic": "t",
                    "value": {"format": "text"},
                    "unreadable_records": "dead_letter",
                }
            },
            "the records that it cannot read",
        ),
    ],
)
def test_what_cannot_be_handed_over_is_refused(served, upstream, kept):
    with pytest.raises(InvalidJobError, match=f"upstream: job paid_orders keeps {kept} with its control tables"):
        grow(served, upstream=upstream, query="SELECT 1 AS one FROM upstream")
