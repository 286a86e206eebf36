"""Giving up an epoch that cannot be done as it is pinned: what is left of it, who may still write, what comes next."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    EpochFailedError,
    EpochGivenUpError,
    QueryFailedError,
)
from airflow_backfill_provider.core.failures import MOST_FAILURES, EpochFailure, is_news
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.status import JobCondition
from airflow_backfill_provider.protocol import mutations
from tests.builders import NOW, PAID
from tests.dying import died, dies_at
from tests.property.memory_engine import BAD, Backfilling, Prepared
from tests.variants import exhaustive

OF_GIVING_UP = [
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
    CrashPoint.BEFORE_GIVING_UP,
]
TASK_RUN = Requester(dag_id="d", run_id="r", task_id="t")

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("places"), range(10), rate_limit=4, query=PAID)


@pytest.fixture(scope="module")
def vnodes(tmp_path_factory):
    return Prepared(
        tmp_path_factory.mktemp("vnodes"),
        range(10),
        rate_limit=4,
        query=PAID,
        strategy="arrangement",
        parallelism=2,
        vnode_count=4,
    )


@pytest.fixture(params=["places", "vnodes"])
def backfilling(request):
    """A created job over the orders 0 to 9, four rows an epoch."""
    return request.getfixturevalue(request.param).restore()


@pytest.fixture(params=["places", exhaustive("vnodes")])
def dying(request):
    """The same, for what has many cases."""
    return request.getfixturevalue(request.param).restore()


def spoil(backfilling, *ids):
    backfilling.orders.change(ids, amount=BAD)


def heal(backfilling, *ids):
    backfilling.orders.change(ids, amount=7)


def fail(backfilling):
    """Run an epoch that the query fails in."""
    barrier = backfilling.inject()
    with pytest.raises(QueryFailedError, match="is given up"):
        backfilling.run(barrier)
    return barrier


def finish(backfilling):
    """Come to the end, and hold the view equal to the query."""
    backfilling.finish_watched()
    rows = backfilling.orders.rows.items()
    assert sorted(backfilling.rows()) == sorted((i, 100 * amount) for i, (status, amount) in rows if status == "paid")
    return backfilling.store.settings()


# --- what is left, and what comes next ------------------------------------------------------------


def test_the_first_epoch_is_given_up_and_pinned_anew_without_a_rebuild(backfilling):
    """A bad row in the first chunk."""
    spoil(backfilling, *range(10))
    barrier = fail(backfilling)
    left = backfilling.store.pinned(1)
    assert left.given_up.error == "QueryFailedError"
    assert left.given_up.to_offset.number == barrier.upstream.to_offset.number
    assert left.parts == ()
    assert backfilling.store.commit_of(1).given_up
    assert backfilling.rows() == []
    incarnation = backfilling.store.settings().incarnation
    heal(backfilling, *range(10))
    assert backfilling.inject().epoch == 2
    assert finish(backfilling).incarnation == incarnation


def test_a_later_chunk_is_given_up_and_the_changes_that_were_applied_stay(backfilling):
    backfilling.epoch()
    spoil(backfilling, *range(1, 10))
    backfilling.orders.change([0], status="draft")
    with suppress(QueryFailedError):
        backfilling.epoch()
    with suppress(QueryFailedError):
        backfilling.epoch()
    backfilling.assert_truth()
    heal(backfilling, *range(1, 10))
    finish(backfilling)


def test_an_epoch_of_a_finished_view_is_given_up_and_the_next_window_begins_where_it_did(backfilling):
    backfilling.finish()
    before = backfilling.store.newest_barrier(backfilling.store.settings())
    rows = backfilling.rows()
    spoil(backfilling, 3)
    barrier = fail(backfilling)
    left = backfilling.store.pinned(barrier.epoch)
    assert (left.upstream.from_offset.number, left.upstream.to_offset.number) == (before.upstream.to_offset.number,) * 2
    assert [read.offset.number for read in left.view_after] == [read.offset.number for read in before.view_after]
    assert left.completes
    assert backfilling.store.commit_of(barrier.epoch).completed
    assert backfilling.rows() == rows
    backfilling.assert_truth()
    heal(backfilling, 3)
    again = backfilling.inject()
    assert again.upstream.from_offset.number == barrier.upstream.from_offset.number
    assert again.upstream.to_offset.number == barrier.upstream.to_offset.number + 1
    finish(backfilling)


def test_it_fails_again_until_the_row_is_corrected(backfilling):
    backfilling.finish()
    spoil(backfilling, 3)
    epochs = [fail(backfilling).epoch for _ in range(3)]
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    heal(backfilling, 3)
    finish(backfilling)


def test_what_the_epoch_was_the_first_to_carry_is_asked_again(backfilling):
    backfilling.finish()
    mutations.repair_job(keys=[[4]], store=backfilling.store, requested_by="x")
    spoil(backfilling, 4)
    barrier = fail(backfilling)
    assert barrier.repair
    left = backfilling.store.pinned(barrier.epoch)
    assert not left.repair
    assert left.mutations == ()
    heal(backfilling, 4)
    again = backfilling.inject()
    assert again.repair == barrier.repair
    assert again.mutations == barrier.mutations
    finish(backfilling)


def test_changes_that_wait_are_given_up_too(tmp_path):
    """The chunk of the next epoch is read where the row may be corrected, not where the chunks before were read."""
    backfilling = Backfilling(tmp_path, query=PAID, rate_limit=4, strategy="no_shuffle", visibility="on_finish")
    backfilling.orders.add(*range(4))
    backfilling.orders.add(*range(4, 10), amount=BAD)
    backfilling.create()
    backfilling.epoch()
    fail(backfilling)
    heal(backfilling, *range(4, 10))
    spoil(backfilling, 1)
    backfilling.epoch()
    fail(backfilling)
    heal(backfilling, 1)
    finish(backfilling)


# --- who is told what -----------------------------------------------------------------------------


def test_a_retry_of_the_task_run_pins_a_new_epoch(backfilling):
    spoil(backfilling, *range(10))
    first = backfilling.inject(TASK_RUN)
    with pytest.raises(QueryFailedError):
        backfilling.run(first)
    assert backfilling.store.epochs_of(TASK_RUN).barriers == ()
    heal(backfilling, *range(10))
    again = backfilling.ask(TASK_RUN)
    assert again.commit is None
    assert again.barrier.epoch == first.epoch + 1
    backfilling.run(again.barrier)
    assert backfilling.ask(TASK_RUN).commit is not None


def test_a_late_attempt_is_told_that_its_epoch_was_given_up(backfilling):
    spoil(backfilling, *range(10))
    barrier = fail(backfilling)
    heal(backfilling, *range(10))
    for attempt in (backfilling.run, backfilling.changes, lambda barrier: backfilling.part(barrier, 0)):
        with pytest.raises(EpochGivenUpError, match="epoch 1 of job paid_orders was given up.*pinned anew"):
            attempt(barrier)
    assert EpochGivenUpError.retryable


def test_an_injector_that_is_late_for_a_given_up_epoch_pins_the_next(backfilling):
    spoil(backfilling, *range(10))

    store = backfilling.store
    pin = type(store).pin

    def late(self, barrier):
        patch.undo()
        fail(backfilling)
        return pin(self, barrier)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "pin", late)
        injection = backfilling.ask(Requester(user="late"))
    assert injection.barrier.epoch == 2
    assert injection.commit is None


def test_errors_that_may_pass_give_nothing_up(backfilling):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    with pytest.raises(EpochFailedError):
        backfilling.run(barrier, engine)
    assert not any("fence" in call for call in engine.calls)
    assert backfilling.inject() == barrier


# --- crashes, races, zombies ----------------------------------------------------------------------


@pytest.mark.parametrize("point", OF_GIVING_UP)
@pytest.mark.parametrize("healed", [exhaustive(False), True])
def test_giving_up_that_died_is_completed_by_whoever_comes_next(dying, point, healed):
    """I2: also if the cause is gone by then, as a data file that was put back is."""
    dying.epoch()
    spoil(dying, *range(10))
    barrier = dying.inject()
    with dies_at(point):
        dying.run(barrier)
    if healed:
        heal(dying, *range(10))
    with pytest.raises(BackfillError, match="given up"):
        dying.run(dying.inject())
    dying.assert_truth()
    assert dying.store.commit_of(barrier.epoch).given_up
    heal(dying, *range(10))
    finish(dying)


@pytest.mark.parametrize("point", OF_GIVING_UP)
def test_two_that_give_up_at_once_leave_the_same(dying, point):
    dying.epoch()
    spoil(dying, *range(10))
    barrier = dying.inject()

    def meanwhile(reached):
        if reached is point:
            crash_points.install(None)
            fail_again(dying, barrier)

    crash_points.install(meanwhile)
    try:
        fail_again(dying, barrier)
    finally:
        crash_points.install(None)
    left = dying.store.pinned(barrier.epoch)
    assert left.given_up is not None
    assert len(dying.store.commits()) == 2
    dying.assert_truth()
    heal(dying, *range(10))
    finish(dying)


def fail_again(backfilling, barrier):
    with pytest.raises(BackfillError, match="given up"):
        backfilling.run(barrier)


ASLEEP = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
]


@pytest.mark.parametrize("point", ASLEEP)
@pytest.mark.parametrize("then", ["nothing", "an epoch", "a rebuild"])
def test_an_attempt_that_slept_while_its_epoch_was_given_up_writes_nothing(dying, point, then):
    """I5: its data file was there, say, and another attempt's was not."""
    dying.epoch()
    dying.orders.change([0, 1, 2, 3, 4], amount=5)
    barrier = dying.inject()

    def meanwhile(reached):
        if reached is not point:
            return
        crash_points.install(None)
        engine = dying.engine()
        engine.refusal = QueryFailedError("for this one alone")
        with pytest.raises(QueryFailedError):
            protocol.run_barrier(barrier, store=dying.store, engine=engine, clock=dying.clock)
        if then == "an epoch":
            dying.epoch()
        elif then == "a rebuild":
            dying.rebuild()
            dying.epoch()

    crash_points.install(meanwhile)
    try:
        with pytest.raises(BackfillError):
            dying.run(barrier)
    finally:
        crash_points.install(None)
    dying.assert_truth()
    finish(dying)


@pytest.mark.parametrize("point", [CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.BEFORE_STATE_COMMIT])
def test_what_an_attempt_wrote_before_the_fence_stays(backfilling, point):
    """Delta's log order decides: the epoch is not given up, or only what is not written of it."""
    backfilling.epoch()
    barrier = backfilling.inject()
    with dies_at(point):
        backfilling.run(barrier)
    engine = backfilling.engine()
    engine.refusal = QueryFailedError("for this one alone")
    with suppress(BackfillError):
        backfilling.run(barrier, engine)
    backfilling.assert_truth() if backfilling.store.commit_of(barrier.epoch) else None
    with suppress(EpochGivenUpError):
        backfilling.run(barrier)
    backfilling.assert_truth()
    assert backfilling.store.state().epoch == barrier.epoch
    finish(backfilling)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_a_shared_epoch_the_parts_that_are_read_stay(vnodes, order):
    backfilling = vnodes.restore()
    backfilling.epoch()
    barrier = backfilling.inject()
    assert len(barrier.parts) == 2
    backfilling.changes(barrier)
    backfilling.part(barrier, order[0])
    engine = backfilling.engine()
    engine.refusal = QueryFailedError("for this one alone")
    with pytest.raises(BackfillError):
        backfilling.part(barrier, order[1], engine)
    engine.refusal = None
    left = backfilling.store.pinned(barrier.epoch)
    assert left.parts == (barrier.parts[order[0]],)
    assert left.upstream == barrier.upstream
    assert backfilling.store.state().epoch == barrier.epoch
    backfilling.assert_truth()
    finish(backfilling)


def test_a_rebuild_after_giving_up_begins_anew(backfilling):
    spoil(backfilling, *range(10))
    fail(backfilling)
    heal(backfilling, *range(10))
    backfilling.rebuild()
    finish(backfilling)


def test_giving_up_in_a_row_dies_at_no_point_of_others(backfilling):
    """The points of giving up are reached by nobody else."""
    for point in (CrashPoint.BEFORE_FENCE, CrashPoint.BEFORE_GIVING_UP):
        assert not died(point, backfilling.epoch)


# --- what is recorded -----------------------------------------------------------------------------


def test_a_failure_is_recorded_with_who_when_and_what(backfilling):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    with pytest.raises(EpochFailedError):
        protocol.run_barrier(barrier, store=backfilling.store, engine=engine, clock=backfilling.clock, by="try 2")
    (failure,) = backfilling.store.failures()
    assert (failure.epoch, failure.error, failure.message) == (1, "EpochFailedError", "the network")
    assert failure.by == "try 2"
    assert failure.retryable
    status = backfilling.backfill.status()
    assert status.condition is JobCondition.RUNNING
    assert status.last_failure.error == "EpochFailedError"
    assert "the same one" in status.last_failure.remedy
    backfilling.run(barrier)
    assert backfilling.backfill.status().last_failure is None


def test_of_an_error_that_is_nobodys_only_the_class_is_recorded(backfilling):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = RuntimeError("row 5 is secret")
    with pytest.raises(RuntimeError):
        backfilling.run(barrier, engine)
    (failure,) = backfilling.store.failures()
    assert (failure.error, failure.message) == ("RuntimeError", "")


def test_a_given_up_epoch_is_the_last_failure_until_one_is_committed(backfilling):
    spoil(backfilling, *range(10))
    fail(backfilling)
    failure = backfilling.backfill.status().last_failure
    assert failure.given_up
    assert failure.epoch == 1
    assert failure.error == "QueryFailedError"
    assert failure.by == "tester"
    assert "pinned anew" in failure.remedy
    heal(backfilling, *range(10))
    assert backfilling.backfill.status().last_failure == failure
    backfilling.epoch()
    assert backfilling.backfill.status().last_failure is None


def test_that_a_failure_cannot_be_recorded_hides_nothing(backfilling, monkeypatch):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    store = backfilling.store

    def broken(self, barrier, failure):
        raise OSError("no disk")

    monkeypatch.setattr(type(store), "record_failure", broken)
    with pytest.raises(EpochFailedError, match="the network"):
        backfilling.run(barrier, engine)


def failure_after(seconds, message="m"):
    return EpochFailure(
        epoch=1,
        incarnation="a",
        error="E",
        message=message,
        by="x",
        at=NOW + dt.timedelta(seconds=seconds),
        retryable=True,
    )


def test_months_of_failures_leave_few_records():
    """Every ten minutes for half a year."""
    recorded = []
    for attempt in range(6 * 24 * 180):
        failure = failure_after(600 * attempt)
        if is_news(recorded, failure):
            recorded.append(failure)
    assert len(recorded) < MOST_FAILURES
    assert recorded[-1].at - NOW > dt.timedelta(days=90)


def test_another_failure_is_news_up_to_a_bound():
    recorded = [failure_after(0), failure_after(1), failure_after(2)]
    assert not is_news(recorded, failure_after(2.5))
    assert is_news(recorded, failure_after(2.5, "another"))
    assert not is_news(recorded * MOST_FAILURES, failure_after(10**9, "another"))
