"""When writers keep up with a rate limit, and how it is raised then."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.failures import GivenUp
from airflow_backfill_provider.core.held_up import MOST_DOUBLINGS, PATIENCE, held_up_epochs, raised
from airflow_backfill_provider.core.rate_limit import GREATEST_RATE_LIMIT, ChosenLimit
from tests.builders import NOW, barrier_of

WHY = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=5, settings_sequence=2)


@pytest.mark.parametrize(
    ("unread", "held_up"), [(400, 2), (475, 2), (476, 3), (500, 3), (900, 3), (None, 2), (-100, 2)]
)
def test_an_epoch_is_held_up_if_it_leaves_about_as_many_rows_as_it_found(unread, held_up):
    """I4: of the 100 rows of the limit, writers may add three quarters."""
    assert held_up_epochs(barrier_of(unread=500, held_up=2), unread) == held_up


@pytest.mark.parametrize("changes", [{"parts": ()}, {"rate_limit": None}, {"unread": None}, {"given_up": WHY}], ids=str)
def test_an_epoch_that_read_nothing_or_everything_is_not_held_up(changes):
    assert held_up_epochs(barrier_of(**{"unread": 500, "held_up": 2} | changes), 500) == 2


def test_the_first_epoch_is_not_held_up():
    assert held_up_epochs(None, 500) == 0
    assert held_up_epochs(barrier_of(), 500) == 0


@pytest.mark.parametrize(
    ("held_up", "rows"),
    [
        (0, 100),
        (PATIENCE - 1, 100),
        (PATIENCE, 200),
        (2 * PATIENCE - 1, 200),
        (2 * PATIENCE, 400),
        (MOST_DOUBLINGS * PATIENCE, None),
        (MOST_DOUBLINGS * PATIENCE + 99, None),
    ],
)
def test_the_limit_is_doubled_again_and_again_and_at_last_lifted(held_up, rows):
    found = raised(ChosenLimit(100), held_up)
    assert found.rows == rows
    assert bool(found.reason) == (rows != 100)
    assert rows == 100 or found.reason.startswith(
        f"raised from 100 rows so that the backfill ends: in {held_up} epochs"
    )


@pytest.mark.parametrize("rows", [None, 0])
def test_no_limit_and_a_paused_job_stay_as_they_are(rows):
    assert raised(ChosenLimit(rows), 30) == ChosenLimit(rows)


def test_a_limit_stays_one_that_barriers_can_have():
    assert raised(ChosenLimit(GREATEST_RATE_LIMIT - 1), PATIENCE).rows == GREATEST_RATE_LIMIT
