"""How many steps each epoch of the replay takes at least, and what a barrier says about it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.replay import MOST_EPOCHS, ReplayEpoch, described
from tests.builders import NOW, barrier_of

WHY = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=5, settings_sequence=2)


def steps(backlog, arrivals):
    """Return the steps of each epoch until nothing is left, if the rate limit allows no row."""
    taken = []
    while backlog:
        epoch = ReplayEpoch(number=len(taken) + 1, backlog=backlog)
        taken.append(epoch.least_steps)
        backlog += 0 if epoch.takes_all else arrivals
        backlog -= taken[-1]
    return taken


def test_in_still_water_ten_epochs_take_a_tenth_of_the_backlog_each():
    assert steps(1000, 0) == [100] * 10
    assert steps(3, 0) == [1, 1, 1]


def test_the_share_grows_so_that_the_tenth_epoch_takes_all_whatever_arrives():
    """I4: with one eighth in each epoch, this backlog stays at 24 for ever."""
    assert steps(24, 3) == [3, 3, 3, 4, 4, 5, 5, 6, 8, 10]
    assert len(steps(1, 1000)) == MOST_EPOCHS


def test_the_number_follows_from_the_previous_barrier_alone():
    """I2: an epoch outside of the replay has none."""
    assert ReplayEpoch.following(None, backlog=7) == ReplayEpoch(number=1, backlog=7)
    assert ReplayEpoch.following(barrier_of(), backlog=7).number == 1
    assert ReplayEpoch.following(barrier_of(replay=1), backlog=7).number == 2
    assert ReplayEpoch.following(barrier_of(replay=MOST_EPOCHS), backlog=7).takes_all


@pytest.mark.parametrize("replay", [1, MOST_EPOCHS])
def test_after_an_epoch_that_was_given_up_everything_is_taken(replay):
    """The window would fail again; the correction lies somewhere behind it."""
    following = ReplayEpoch.following(barrier_of(replay=replay, given_up=WHY), backlog=9)
    assert following.takes_all
    assert following.least_steps == 9
    assert ReplayEpoch.following(barrier_of(given_up=WHY), backlog=9).number == 1


@pytest.mark.parametrize(
    ("number", "steps", "rate_limit", "warning"),
    [
        (1, 2, 5, "epoch 1 of the replay takes 2 of the 20 offsets that are left, however many rows changed in them"),
        (10, 20, 5, "epoch 10 of the replay takes all 20 offsets that are left, however many rows changed in them"),
        (1, 3, 5, ""),  # the rate limit allows more
        (1, 2, None, ""),
        (1, 2, 0, ""),
    ],
)
def test_a_warning_says_that_the_rate_limit_does_not_bind_an_epoch(number, steps, rate_limit, warning):
    found = ReplayEpoch(number=number, backlog=20).warnings(steps, rate_limit)
    assert bool(found) == bool(warning)
    assert "".join(found).startswith(warning)


def test_a_single_step_is_never_too_many():
    assert ReplayEpoch(number=10, backlog=1).warnings(1, 5) == ()


def test_the_rest_is_described_in_words():
    assert described(1).startswith("the changes since then are applied in at most 10 epochs: each applies as many as")
    assert "at most 8 epochs" in described(3)
    assert described(MOST_EPOCHS).startswith("the next epoch applies all changes that are left")
