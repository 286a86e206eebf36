"""When writers keep up with a rate limit, and how it is raised then."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.barrier import CountedRows
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.held_up import MOST_DOUBLINGS, PATIENCE, counted, held_up_before, raised
from airflow_backfill_provider.core.job.rate_limit import GREATEST_RATE_LIMIT, ChosenLimit
from airflow_backfill_provider.core.scan.offset import Offset
from tests.builders import NOW, barrier_of, settings_of

WHY = GivenUp(error="E", message="m", by="x", at=NOW, to_offset=5, settings_sequence=2)


def barrier_with(rows=500, epochs=0, **changes):
    """Return a barrier with the rows that are left, and the epochs since they were counted."""
    return barrier_of(unread=None if rows is None else CountedRows(rows=rows, epochs=epochs), **changes)


@pytest.mark.parametrize(("left", "held_up"), [(400, 0), (475, 0), (476, 1), (500, 1), (900, 1), (-100, 0)])
def test_an_epoch_is_held_up_if_it_leaves_about_as_many_rows_as_it_found(left, held_up):
    """I4: of the 100 rows of the limit, writers may add three quarters."""
    assert counted(barrier_with(), left) == (CountedRows(rows=left), held_up)


@pytest.mark.parametrize("changes", [{"parts": ()}, {"rate_limit": None}, {"given_up": WHY}], ids=str)
def test_an_epoch_that_read_nothing_or_everything_is_not_held_up(changes):
    assert counted(barrier_with(**changes), 500) == (CountedRows(rows=500), 0)


def test_the_first_epoch_is_not_held_up():
    assert counted(None, 500) == (CountedRows(rows=500), 0)
    assert counted(None, None) == (None, 0)
    assert counted(barrier_with(rows=None), 500) == (CountedRows(rows=500), 0)
    assert held_up_before(None, ()) == 0


def test_rows_are_not_counted_at_an_older_offset():
    """There they only become fewer, whatever writers add to the present."""
    assert counted(barrier_with(epochs=3, older_offset=Offset(0)), 200) == (CountedRows(rows=500, epochs=4), 0)
    assert counted(barrier_with(epochs=3), None) == (CountedRows(rows=500, epochs=4), 0)


@pytest.mark.parametrize(("left", "held_up"), [(400, 0), (401, 4)])
def test_all_epochs_since_the_last_count_were_held_up_or_none(left, held_up):
    assert counted(barrier_with(epochs=3), left) == (CountedRows(rows=left), held_up)


@pytest.mark.parametrize(("change", "held_up"), [("throttle", 0), ("pause", 7), ("rescale", 7)])
def test_the_count_begins_again_with_a_limit_that_somebody_sets(change, held_up):
    """Who throttles a job wants this limit, and not a multiple of it."""
    assert held_up_before(barrier_of(held_up=7), [settings_of(change=change)]) == held_up


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
