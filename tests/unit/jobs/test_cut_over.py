"""What waits for an approval, what approves it, and what voids an approval: I2, I3."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.engine import EpochWrites
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import ConcurrentUpdateError, InvalidJobError, NotFinishedError
from airflow_backfill_provider.core.job.cut_over import CutOverKind
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.jobs import creation, cut_over, revert
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.verification import view_differences
from airflow_backfill_provider.protocol.epoch_run import EpochRun
from tests.builders import PAID
from tests.cut_overs import KnownComparer, seen
from tests.dying import died
from tests.property.backfilling import TESTER
from tests.unit.jobs.waiting import GATED, approve, change, grow, grown, step, waiting

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


# ----------------------------------------------------------------------------------------------- a rebuild


def test_a_rebuild_waits_and_stays_fresh_until_it_is_approved(served):
    first = served.store.settings()
    grow(served)
    assert waiting(served) is None, "it is not ready"
    grown(served)
    for amount in (7, 8):
        served.orders.change([3], amount=amount)
        served.epoch()
        assert step(served), "it is kept fresh"
        assert served.ask().barrier is None
        assert served.store.settings().incarnation == first.incarnation
    status = served.backfill.status()
    assert (status.finished, status.condition) == (True, JobCondition.FINISHED), "the view that serves"
    assert (status.rebuild.finished, status.rebuild.condition) == (False, JobCondition.READY)
    assert status.cut_over.kind is CutOverKind.REBUILD
    assert any("waits for an approval" in warning for warning in status.warnings)
    settings = approve(served)
    assert (settings.change, settings.requested_by, settings.approved.approved_by) == (
        SettingsChange.APPROVE,
        "vera",
        "vera",
    )
    assert waiting(served) is None
    served.orders.change([3], amount=9)
    assert step(served), "later epochs of the rebuild do not void it"
    barrier = served.inject()
    assert barrier.incarnation != first.incarnation
    served.run(barrier)
    served.assert_truth()
    assert served.store.settings().approved.subject.incarnation == barrier.incarnation
    assert protocol.finish_job(store=served.store, requested_by="x").finished_epoch == barrier.epoch
    assert waiting(served) is None


def test_an_approval_says_what_was_seen(served):
    grow(served)
    grown(served)
    served.orders.change([3], amount=7)
    served.epoch()
    comparer = KnownComparer()
    shown = seen(served.backfill, comparer, served.clock)
    assert shown.sides.at_one_point, "both views as of one version of the upstream, although one of them is newer"
    (sides,) = comparer.asked
    assert sides.served.settings.job["query"] != sides.waiting.settings.job["query"]
    settings = cut_over.approve(shown, store=served.store, approved_by="vera", clock=served.clock)
    assert settings.approved.difference == shown.number == 1
    assert settings.approved.versions == shown.sides.model_dump(mode="json")
    assert cut_over.approve(shown, store=served.store, approved_by="bob") == settings, "approved is approved"


@pytest.mark.parametrize("again", [{}, {"vnode_count": 8}], ids=["the same, grown again", "another definition"])
def test_another_rebuild_voids_an_approval(served, again):
    """An approval is about one definition in one incarnation."""
    grow(served)
    grown(served)
    shown = seen(served.backfill, KnownComparer(), served.clock)
    cut_over.approve(shown, store=served.store, approved_by="vera")
    revert.give_up_successor(served.store, requested_by="ann")
    grow(served, **again)
    grown(served)
    assert waiting(served).kind is CutOverKind.REBUILD
    before = served.store.settings().incarnation
    assert served.ask().barrier is None
    assert served.store.settings().incarnation == before
    with pytest.raises(InvalidJobError, match="difference 1 is of another rebuild than the one that waits now"):
        cut_over.approve(shown, store=served.store, approved_by="vera")
    with pytest.raises(NotFinishedError, match="no difference of the rebuild is recorded"):
        view_differences.difference_to_approve(served.backfill, None)


def test_what_is_not_ready_is_neither_compared_nor_approved(served):
    with pytest.raises(InvalidJobError, match="nothing waits for an approval"):
        approve(served)
    grow(served)
    with pytest.raises(NotFinishedError, match="the rebuild is not complete yet"):
        approve(served)
    served.store.settings()
    assert served.store.differences.newest() is None


@pytest.mark.exhaustive
def test_a_handover_that_died_after_the_approval_goes_on(served):
    """I2: the approval is in the settings, so any later request does the rest."""
    grow(served)
    grown(served)
    approve(served)
    for point in (CrashPoint.AFTER_SUCCESSION_STATE, CrashPoint.AFTER_SUCCESSION_SETTINGS):
        assert died(point, served.ask), point
    served.finish()
    assert served.store.settings().job["query"] == PAID


@pytest.mark.exhaustive
def test_an_approval_and_another_change_of_the_settings_at_once(served, monkeypatch):
    grow(served)
    grown(served)
    shown = seen(served.backfill, KnownComparer(), served.clock)
    ready = cut_over.require_ready

    def then_another(store, settings):
        found = ready(store, settings)
        revert.give_up_successor(served.store, requested_by="bob")
        return found

    monkeypatch.setattr(cut_over, "require_ready", then_another)
    with pytest.raises(ConcurrentUpdateError, match="changed meanwhile"):
        cut_over.approve(shown, store=served.backfill.store, approved_by="vera")
    assert served.store.settings().approved is None


def test_a_rebuild_that_nobody_approves_in_time_is_given_up(served):
    grow(served, cut_over_timeout_hours=10)
    folder = grown(served).job.state
    ready = waiting(served)
    assert ready.given_up_at == ready.ready_since + dt.timedelta(hours=10)

    def ask_at(now):
        return protocol.inject_barrier(
            store=served.backfill.store, upstream=served.orders.table, requester=TESTER, clock=lambda: now
        )

    ask_at(ready.given_up_at - dt.timedelta(seconds=1))
    assert waiting(served) == ready
    ask_at(ready.given_up_at)
    settings = served.store.settings()
    assert (settings.change, settings.successor) == (SettingsChange.GIVE_UP_CUT_OVER, None)
    assert not Backfill(served.job.model_copy(update={"state": folder})).store.created()
    assert served.backfill.status().finished, "the view that serves stays"


def test_a_rebuild_that_needs_no_approval_takes_the_place_at_once(served):
    grow(served, cut_over="auto")
    grown(served)
    assert waiting(served) is None
    assert served.inject().incarnation != served.store.settings_history()[0].incarnation


# ------------------------------------------------------------------------------------------------ a change


def test_a_changed_query_waits_and_its_approval_is_the_change(served):
    first = served.store.settings()
    settings = change(served)
    assert (settings.change, settings.job) == (SettingsChange.PROPOSE_CHANGE, first.job)
    assert creation.require_job(served.job, served.store), "both definitions are accepted"
    served.orders.change([3], status="draft")
    assert not served.inject().rewrites_rows
    served.epoch()
    served.assert_truth()
    status = served.backfill.status()
    assert (status.finished, status.cut_over.kind) == (True, CutOverKind.CHANGE)
    comparer = KnownComparer()
    shown = seen(served.backfill, comparer, served.clock)
    assert shown.sides.at_one_point
    assert shown.sides.waiting.view_version is None
    assert comparer.asked[0].waiting.settings.job["query"] == PAID
    settings = cut_over.approve(shown, store=served.store, approved_by="vera", clock=served.clock)
    assert (settings.change, settings.job["query"], settings.proposed) == (SettingsChange.CHANGE, PAID, None)
    assert settings.approved.subject == shown.subject
    barrier = served.inject()
    assert barrier.rewrites_rows
    served.run(barrier)
    served.assert_truth()
    assert len(served.rows()) == 9
    assert waiting(served) is None


def test_another_query_voids_what_was_seen(served):
    change(served)
    shown = seen(served.backfill, KnownComparer(), served.clock)
    change(served, query="SELECT id, amount * 3 AS cents FROM upstream")
    with pytest.raises(InvalidJobError, match="difference 1 is of another definition than the one that waits now"):
        cut_over.approve(shown, store=served.store, approved_by="vera")


def test_a_query_that_was_approved_once_waits_again_if_it_is_proposed_again(served):
    former = served.job.query
    change(served)
    approve(served)
    served.epoch()
    change(served, query=former, cut_over="auto")
    served.epoch()
    change(served)
    assert waiting(served).kind is CutOverKind.CHANGE
    with pytest.raises(InvalidJobError, match="is of another proposal"):
        view_differences.difference_to_approve(served.backfill, 1)
    assert view_differences.newest_difference(served.backfill) is None


def test_a_change_is_withdrawn_by_the_definition_in_force_or_by_revert(served):
    former = served.store.settings()
    query = served.job.query
    change(served)
    assert change(served) == served.store.settings(), "asked again"
    change(served, query=query, cut_over="auto")
    assert (served.store.settings().proposed, served.store.settings().job) == (None, former.job)
    change(served)
    assert revert.give_up_successor(served.store, requested_by="ann") is CutOverKind.CHANGE
    assert served.store.settings().proposed is None
    assert served.store.settings().job == former.job


def test_a_change_of_no_rows_needs_no_approval(served):
    query = served.job.query
    assert change(served, query=f"{query} -- said in other words").change is SettingsChange.CHANGE
    assert change(served, query=query, cut_over="auto").change is SettingsChange.CHANGE
    assert waiting(served) is None


def test_a_change_that_nobody_approves_in_time_is_given_up(served):
    change(served, cut_over_timeout_hours=0.001)
    served.ask()
    assert served.store.settings().change is SettingsChange.GIVE_UP_CUT_OVER
    assert served.store.settings().proposed is None


# ----------------------------------------------------------------------------------------- a first backfill


@pytest.fixture
def complete(backfilling):
    """A complete view that waits, and is not marked as finished."""
    backfilling.rebuild(**GATED)
    backfilling.finish()
    return backfilling


def test_a_first_backfill_that_is_ready_is_not_finished(complete):
    assert complete.store.state().completed
    assert not complete.view.marked_finished
    with pytest.raises(NotFinishedError, match="is ready, and waits for an approval"):
        protocol.finish_job(store=complete.store, requested_by="x")
    status = complete.backfill.status()
    assert (status.finished, status.condition, status.progress < 1) == (False, JobCondition.READY, True)
    assert (status.cut_over.kind, status.cut_over.given_up_at) == (CutOverKind.BACKFILL, None)
    complete.orders.change([3], amount=7)
    complete.epoch()
    complete.assert_truth()
    assert not complete.view.marked_finished, "its epochs go on"


def test_an_approved_backfill_is_marked_by_the_next_epoch_even_if_nothing_changed(complete):
    comparer = KnownComparer()
    shown = seen(complete.backfill, comparer, complete.clock)
    assert shown.sides.served is None
    assert comparer.asked[0].served is None
    assert complete.ask().barrier is None
    cut_over.approve(shown, store=complete.store, approved_by="vera")
    barrier = complete.inject()
    assert (barrier.withheld, barrier.has_window, barrier.parts) == (False, False, ())
    commit = complete.run(barrier)
    assert commit.is_finished
    assert complete.view.marked_finished
    assert protocol.finish_job(store=complete.store, requested_by="x").finished_epoch == barrier.epoch
    assert complete.ask().barrier is None
    complete.orders.change([3], amount=7)
    complete.epoch()
    assert complete.view.marked_finished


def test_an_epoch_that_was_pinned_before_the_approval_withholds_the_view(complete):
    """I2: a pinned epoch depends on nothing that comes later."""
    complete.orders.change([3], amount=7)
    barrier = complete.inject()
    approve(complete)
    assert complete.inject() == barrier
    assert not complete.run(barrier).is_finished
    assert not complete.view.marked_finished
    complete.epoch()
    assert complete.view.marked_finished


def test_a_delayed_attempt_from_before_the_approval_takes_no_mark_back(complete):
    """I3, I5: finished stays finished, whoever wakes up."""
    complete.orders.change([3], amount=7)
    delayed = complete.inject()
    engine = complete.engine()
    assert died(CrashPoint.BEFORE_LOG_COMMIT, lambda: complete.run(delayed, engine))
    complete.run(delayed)
    approve(complete)
    complete.epoch()
    assert complete.view.marked_finished
    run = EpochRun(
        barrier=delayed,
        settings=complete.store.settings(),
        since=next(commit.tables for commit in complete.store.commits() if commit.epoch == delayed.prev_epoch),
        store=complete.backfill.store,
        engine=engine,
        clock=complete.clock,
        by="a delayed attempt",
    )
    run.commit_state(delayed, EpochWrites({}, 0, {}), {})
    assert complete.view.marked_finished


@pytest.mark.exhaustive
def test_a_view_that_was_put_back_waits_for_nothing(complete):
    approve(complete)
    complete.finish()
    protocol.finish_job(store=complete.store, requested_by="x")
    complete.rebuild(query=PAID)
    complete.finish()
    assert waiting(complete).kind is CutOverKind.BACKFILL
    revert.put_back(complete.store, engine=complete.engine, requested_by="ann", clock=complete.clock)
    complete.finish()
    assert complete.view.marked_finished
    assert waiting(complete) is None
