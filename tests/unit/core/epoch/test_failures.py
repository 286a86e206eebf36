"""Failures of an epoch: which are recorded, and the text of the last one."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.failures import (
    FIRST_FAILURES,
    MOST_FAILURES,
    EpochFailure,
    GivenUp,
    LastFailure,
    is_worth_recording,
)
from tests.builders import NOW


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
    """Every hour for half a year."""
    recorded = []
    for attempt in range(24 * 180):
        failure = failure_after(3600 * attempt)
        if is_worth_recording(recorded, failure):
            recorded.append(failure)
    assert len(recorded) < MOST_FAILURES
    assert recorded[-1].at - NOW > dt.timedelta(days=90)


def test_another_failure_is_recorded_up_to_a_limit():
    recorded = [failure_after(0), failure_after(1), failure_after(2)]
    assert not is_worth_recording(recorded, failure_after(2.5))
    assert is_worth_recording(recorded, failure_after(2.5, "another"))
    assert not is_worth_recording(recorded * MOST_FAILURES, failure_after(10**9, "another"))


@pytest.mark.parametrize("recorded", [0, 1, 2])
def test_the_first_failures_are_recorded_however_soon_they_come(recorded):
    assert FIRST_FAILURES == 3
    assert is_worth_recording([failure_after(0), failure_after(10)][:recorded], failure_after(11))
    assert not is_worth_recording([failure_after(0), failure_after(10), failure_after(20)], failure_after(21))


def test_the_same_failure_is_recorded_again_once_it_lasted_twice_as_long():
    recorded = [failure_after(0), failure_after(50), failure_after(100)]
    assert not is_worth_recording(recorded, failure_after(199))
    assert is_worth_recording(recorded, failure_after(200))


@pytest.mark.parametrize(("retryable", "remedy"), [(True, "may be gone"), (False, "do what the message says")])
def test_an_attempt_that_failed_leaves_its_epoch_pinned(retryable, remedy):
    failure = failure_after(0).model_copy(update={"retryable": retryable})
    last = LastFailure.of_attempt(failure)
    assert (last.epoch, last.error, last.message, last.by, last.at) == (1, "E", "m", "x", NOW)
    assert not last.given_up
    assert remedy in last.remedy
    assert str(last) == "epoch 1 failed and is still pinned, run by x at 2026-03-29 01:30:00 UTC (E: m)"


def test_after_an_epoch_is_given_up_a_new_one_is_pinned():
    why = GivenUp(error="E", message="", by="x", at=NOW, to_offset=3, settings_sequence=1)
    last = LastFailure.of_given_up(7, why)
    assert last.given_up
    assert "a new barrier is pinned" in last.remedy
    assert str(last) == "epoch 7 was given up, run by x at 2026-03-29 01:30:00 UTC (E)"
