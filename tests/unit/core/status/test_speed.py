"""How fast a job reads, and how long the rest takes."""

from __future__ import annotations

import datetime as dt
from itertools import accumulate

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation, PinnedMutation
from airflow_backfill_provider.core.status.speed import RECENT_EPOCHS, recent_speed
from tests.builders import NOW, barrier_of, commit_of

MINUTE = 60
HOUR = 60 * MINUTE


def log_of(*waits, rows=100, seconds=30, **barriers):
    """Barriers and commits of epochs of half a minute, each after a wait of so many seconds."""
    begins = accumulate(waits, lambda begin, wait: begin + seconds + wait)
    found = [
        barrier_of(epoch, injected_at=NOW + dt.timedelta(seconds=begin), **barriers.get(f"epoch_{epoch}", {}))
        for epoch, begin in enumerate(begins, start=1)
    ]
    return found, [
        commit_of(
            barrier, snapshot_read_row_count=rows, committed_at=barrier.injected_at + dt.timedelta(seconds=seconds)
        )
        for barrier in found
    ]


def resumed():
    carried = PinnedMutation(mutation=Mutation.RESUME, requested_by="x", requested_at=NOW)
    return {"mutations": (carried,)}


def test_the_speed_leaves_out_the_time_between_epochs():
    assert recent_speed(*log_of(0, 5, 5, 10 * HOUR)).rows_per_second == pytest.approx(100 / 30)


def test_waits_for_the_next_run_count_in_the_time_that_is_left():
    speed = recent_speed(*log_of(0, HOUR - 30, HOUR - 30))
    assert speed.seconds_for(500) == pytest.approx(5 * HOUR)


def test_one_night_among_the_waits_counts_for_nothing():
    speed = recent_speed(*log_of(0, 30, 30, 9 * HOUR, 30))
    assert speed.seconds_for(500) == pytest.approx(5 * MINUTE)


def test_a_pause_counts_for_nothing():
    """A wait that ends with a resumption does not count, even if it is the only one."""
    assert recent_speed(*log_of(0, 9 * HOUR, epoch_2=resumed())).seconds_for(100) == pytest.approx(30)


def test_a_wait_around_an_epoch_that_read_nothing_counts_for_nothing():
    barriers, commits = log_of(0, HOUR, HOUR)
    commits[1] = commits[1].model_copy(update={"snapshot_read_row_count": 0})
    speed = recent_speed(barriers, commits)
    assert (speed.rows, speed.seconds, speed.waits) == (200, 60, 0)


def test_a_first_epoch_has_no_wait():
    assert recent_speed(*log_of(0)).seconds_for(200) == pytest.approx(60)


def test_a_wait_is_never_negative():
    """The clock of the second epoch's injector was slow."""
    assert recent_speed(*log_of(0, -20)).waits == 0


def test_the_newest_epochs_count():
    assert recent_speed(*log_of(*[0] * (RECENT_EPOCHS + 3))).rows == RECENT_EPOCHS * 100


@pytest.mark.parametrize("seconds", [0, -30])
def test_epochs_of_no_duration_give_no_speed(seconds):
    barriers, commits = log_of(0, 0, 0)
    wrong = {"committed_at": barriers[1].injected_at + dt.timedelta(seconds=seconds)}
    commits[1] = commits[1].model_copy(update=wrong)
    assert recent_speed(barriers, commits).rows == 200
    assert recent_speed(barriers[1:2], commits[1:2]) is None


def test_a_commit_without_its_barrier_gives_no_speed():
    barriers, commits = log_of(0, 0)
    assert recent_speed(barriers[1:], commits).rows == 100
