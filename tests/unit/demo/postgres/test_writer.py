"""The moments at which the writer begins transactions."""

from __future__ import annotations

import numpy as np
import pytest

from demo.postgres.writer import Schedule


class Clock:
    """A clock that stands still unless it is told otherwise."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def schedule(clock: Clock, rate: float) -> Schedule:
    return Schedule(rate, np.random.default_rng(5), clock)


def test_transactions_begin_at_the_rate_on_average_and_at_random_moments(clock):
    moments = schedule(clock, rate=20)
    pauses = []
    for _ in range(4000):
        pauses.append(moments.pause())
        clock.now += pauses[-1]
    assert 4000 / (clock.now - 100) == pytest.approx(20, rel=0.05)
    assert np.std(pauses) == pytest.approx(1 / 20, rel=0.1)


def test_a_writer_that_is_late_catches_up(clock):
    moments = schedule(clock, rate=10)
    clock.now += 60
    late = [moments.pause() for _ in range(400)]
    assert late == [0.0] * 400
    assert any(moments.pause() for _ in range(400))
