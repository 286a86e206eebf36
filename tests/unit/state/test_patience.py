"""How a writer of a control table tries again: with growing random waits, and within a bounded time."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.patience import PATIENT, GaveUpError, OvertakenError, Patience


class Time:
    """A clock that advances by waiting alone."""

    def __init__(self):
        self.now = 0.0
        self.waits = []

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds

    def patience(self, **limits):
        return Patience(sleep=self.sleep, clock=lambda: self.now, **limits)


def overtaken(times, answer="done"):
    """Return an attempt that is overtaken so many times, and then succeeds."""
    left = iter(range(times))

    def attempt():
        if next(left, None) is not None:
            raise OvertakenError
        return answer

    return attempt


def test_the_answer_of_the_first_attempt_that_is_not_overtaken_is_returned():
    time = Time()
    assert time.patience().until_not_overtaken(overtaken(5)) == "done"
    assert len(time.waits) == 5


def test_a_writer_that_is_not_overtaken_does_not_wait():
    time = Time()
    assert time.patience().until_not_overtaken(overtaken(0, "at once")) == "at once"
    assert time.waits == []


def test_waits_grow_up_to_the_longest():
    time = Time()
    time.patience(first_wait=1, longest_wait=4, longest=10**6).until_not_overtaken(overtaken(20))
    assert all(0 <= wait <= min(2**n, 4) for n, wait in enumerate(time.waits))
    assert max(time.waits) > 1


def test_a_writer_that_is_overtaken_for_too_long_gives_up_and_says_how_long_it_tried():
    time = Time()
    with pytest.raises(GaveUpError) as caught:
        time.patience(first_wait=1, longest_wait=10, longest=60).until_not_overtaken(overtaken(10**6))
    assert caught.value.attempts == len(time.waits) + 1
    assert 60 <= caught.value.seconds == sum(time.waits) <= 70


def test_another_error_is_not_tried_again():
    time = Time()

    def attempt():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        time.patience().until_not_overtaken(attempt)
    assert time.waits == []


def test_writers_give_up_after_minutes():
    assert PATIENT.longest == 300
