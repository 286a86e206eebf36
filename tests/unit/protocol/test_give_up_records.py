"""What is recorded of an epoch that is given up."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.core.status.job_condition import JobCondition
from tests.unit.protocol import give_up_helpers
from tests.unit.protocol.give_up_helpers import fail, heal, spoil

places = give_up_helpers.places
vnodes = give_up_helpers.vnodes
backfilling = give_up_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_failure_is_recorded_with_who_when_and_what(backfilling):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    with pytest.raises(EpochFailedError):
        protocol.run_epoch(barrier, store=backfilling.store, engine=engine, clock=backfilling.clock, by="try 2")
    (failure,) = backfilling.store.failures()
    assert (failure.epoch, failure.error, failure.message) == (1, "EpochFailedError", "the network")
    assert failure.by == "try 2"
    assert failure.retryable
    status = backfilling.backfill.status()
    assert status.condition is JobCondition.RUNNING
    assert status.last_failure.error == "EpochFailedError"
    assert "it retries the pinned one" in status.last_failure.remedy
    backfilling.run(barrier)
    assert backfilling.backfill.status().last_failure is None


def test_only_the_class_of_an_unexpected_error_is_recorded(backfilling):
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
    assert "a new barrier is pinned" in failure.remedy
    heal(backfilling, *range(10))
    assert backfilling.backfill.status().last_failure == failure
    backfilling.epoch()
    assert backfilling.backfill.status().last_failure is None


def test_a_failure_that_cannot_be_recorded_is_still_raised(backfilling, monkeypatch):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    store = backfilling.store

    def broken(self, barrier, failure):
        raise OSError("no disk")

    monkeypatch.setattr(type(store), "record_failure", broken)
    with pytest.raises(EpochFailedError, match="the network"):
        backfilling.run(barrier, engine)
