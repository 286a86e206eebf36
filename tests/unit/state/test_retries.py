"""How long a writer goes on when others are faster: with a clock and a sleep that cost no time."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.retries import PATIENT, CommitConflictError, RetriesExhaustedError, RetryPolicy


class Time:
    """A clock that moves with each sleep."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def patience(self, **rule):
        return RetryPolicy(sleep=self.sleep, clock=lambda: self.now, **rule)


def overtaken(times):
    """An attempt that succeeds after others were faster so many times."""
    left = iter([True] * times)

    def attempt():
        if next(left, False):
            raise CommitConflictError
        return "written"

    return attempt


@pytest.mark.parametrize("times", [0, 1, 5])
def test_attempts_end_when_no_other_writer_was_faster(times):
    time = Time()
    assert time.patience().until_not_overtaken(overtaken(times)) == "written"
    assert len(time.slept) == times


def test_waits_may_double_up_to_the_longest_one():
    time = Time()
    time.patience(first_wait=1.0, longest_wait=4.0).until_not_overtaken(overtaken(40))
    bounds = [1.0, 2.0, *[4.0] * 38]
    assert all(0 <= slept <= most for slept, most in zip(time.slept, bounds, strict=True))
    assert max(time.slept) > 2.0, "by chance, of forty"
    assert len(set(time.slept)) > 10, "writers spread out"


def test_after_the_longest_time_no_further_attempt_begins():
    time = Time()
    with pytest.raises(RetriesExhaustedError) as gave_up:
        time.patience(longest=30.0, first_wait=8.0, longest_wait=8.0).until_not_overtaken(overtaken(1000))
    assert gave_up.value.attempts == len(time.slept) + 1
    assert 30.0 <= gave_up.value.seconds < 30.0 + 8.0


def test_an_error_of_another_kind_is_not_retried():
    time = Time()

    def attempt():
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        time.patience().until_not_overtaken(attempt)
    assert time.slept == []


def test_all_writers_wait_for_minutes_at_most():
    assert PATIENT.first_wait < PATIENT.longest_wait < PATIENT.longest <= 600
