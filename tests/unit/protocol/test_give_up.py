"""Giving up an epoch that cannot be done as it is pinned: what is left, what comes next, and what others learn."""

from __future__ import annotations

from contextlib import suppress

import pytest

from airflow_backfill_provider.core.errors import (
    DuplicateKeyError,
    EpochFailedError,
    EpochGivenUpError,
    QueryFailedError,
)
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.protocol.give_up import given_up_error
from tests.builders import PAID, barrier_of, job_of, settings_of
from tests.property.backfilling import Backfilling
from tests.property.memory_queries import BAD
from tests.unit.protocol import give_up_helpers
from tests.unit.protocol.give_up_helpers import fail, finish, heal, spoil
from tests.variants import exhaustive

places = give_up_helpers.places
vnodes = give_up_helpers.vnodes
backfilling = give_up_helpers.backfilling
dying = give_up_helpers.dying

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TASK_RUN = Requester(dag_id="d", run_id="r", task_id="t")


@pytest.mark.parametrize(
    ("strategy", "error", "barrier", "advice"),
    [
        ("no_shuffle", QueryFailedError, {}, "no rebuild is needed"),
        (
            "snapshot",
            QueryFailedError,
            {},
            "are read as of version 0 until all are read, so the next epoch fails in the",
        ),
        exhaustive("snapshot", QueryFailedError, {"replay": 3}, "no rebuild is needed"),
        exhaustive("snapshot", QueryFailedError, {"parts": ()}, "no rebuild is needed"),
        ("snapshot", DuplicateKeyError, {}, "no rebuild is needed"),
    ],
)
def test_the_error_says_whether_the_next_epoch_can_be_better(strategy, error, barrier, advice):
    """While ``snapshot`` reads files, it reads the same version again, and a correction comes after it."""
    settings = settings_of(job_of(strategy=strategy), strategy=strategy)
    assert advice in str(given_up_error(error("why"), barrier_of(**barrier), settings))


# --- what is left, and what comes next ------------------------------------------------------------


def test_the_first_epoch_is_given_up_and_pinned_again_without_a_rebuild(backfilling):
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


def test_an_epoch_of_a_finished_view_is_given_up_and_the_next_window_begins_where_it_did(dying):
    dying.finish()
    before = dying.store.newest_barrier(dying.store.settings())
    rows = dying.rows()
    spoil(dying, 3)
    barrier = fail(dying)
    left = dying.store.pinned(barrier.epoch)
    assert (left.upstream.from_offset.number, left.upstream.to_offset.number) == (before.upstream.to_offset.number,) * 2
    assert [read.offset.number for read in left.view_after] == [read.offset.number for read in before.view_after]
    assert left.completes
    assert dying.store.commit_of(barrier.epoch).completed
    assert dying.rows() == rows
    dying.assert_truth()
    heal(dying, 3)
    again = dying.inject()
    assert again.upstream.from_offset.number == barrier.upstream.from_offset.number
    assert again.upstream.to_offset.number == barrier.upstream.to_offset.number + 1
    finish(dying)


def test_it_fails_again_until_the_row_is_corrected(dying):
    dying.finish()
    spoil(dying, 3)
    epochs = [fail(dying).epoch for _ in range(3)]
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    heal(dying, 3)
    finish(dying)


@pytest.mark.exhaustive
def test_mutations_that_the_epoch_was_the_first_to_pin_are_pinned_again(dying):
    dying.finish()
    mutations.repair_job(keys=[[4]], store=dying.store, requested_by="x")
    spoil(dying, 4)
    barrier = fail(dying)
    assert barrier.repair
    left = dying.store.pinned(barrier.epoch)
    assert not left.repair
    assert left.mutations == ()
    heal(dying, 4)
    again = dying.inject()
    assert again.repair == barrier.repair
    assert again.mutations == barrier.mutations
    finish(dying)


@pytest.mark.exhaustive
def test_changes_that_wait_are_given_up_too(tmp_path):
    """The next chunk is read at an offset at which the row may be corrected, not at that of the chunks before."""
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


# --- what others learn ----------------------------------------------------------------------------


def test_a_retry_of_the_task_run_pins_a_new_epoch(dying):
    spoil(dying, *range(10))
    first = dying.inject(TASK_RUN)
    with pytest.raises(QueryFailedError):
        dying.run(first)
    assert dying.store.epochs_of(TASK_RUN).barriers == ()
    heal(dying, *range(10))
    again = dying.ask(TASK_RUN)
    assert again.commit is None
    assert again.barrier.epoch == first.epoch + 1
    dying.run(again.barrier)
    assert dying.ask(TASK_RUN).commit is not None


def test_a_late_attempt_learns_that_its_epoch_was_given_up(backfilling):
    spoil(backfilling, *range(10))
    barrier = fail(backfilling)
    heal(backfilling, *range(10))
    for attempt in (backfilling.run, backfilling.changes, lambda barrier: backfilling.part(barrier, 0)):
        with pytest.raises(EpochGivenUpError, match="epoch 1 of job paid_orders was given up.*pins a new barrier"):
            attempt(barrier)
    assert EpochGivenUpError.retryable


def test_an_injector_that_is_late_for_a_given_up_epoch_pins_the_next(dying):
    spoil(dying, *range(10))

    store = dying.store
    pin = type(store).pin

    def late(self, barrier):
        patch.undo()
        fail(dying)
        return pin(self, barrier)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "pin", late)
        injection = dying.ask(Requester(user="late"))
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
