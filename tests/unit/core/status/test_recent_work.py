"""What the newest epochs did with a view's units, in the status."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.unit_work import WHOLE, UnitWork
from airflow_backfill_provider.core.refresh import ASKED_FOR
from airflow_backfill_provider.core.status.recent_work import MOST_EPOCHS, described, recent_work, trend
from tests.builders import barrier_of, commit_of


def after(*done: UnitWork | None, **barrier):
    epochs = range(1, len(done) + 1)
    barriers = [barrier_of(epoch=epoch, **barrier) for epoch in epochs]
    commits = [
        commit_of(barrier).model_copy(update={"work": work}) for barrier, work in zip(barriers, done, strict=True)
    ]
    return recent_work(barriers, commits)


def sliced(units: int, rows: int | None = 1_000) -> UnitWork:
    return UnitWork(technique="slice", units=units, rows_read=rows)


def test_epochs_that_touched_no_units_are_left_out():
    assert after(None, None) is None
    found = after(sliced(3), None, sliced(4))
    assert [(work.epoch, work.technique, work.units) for work in found.epochs] == [(1, "slice", 3), (3, "slice", 4)]


def test_only_the_newest_epochs_are_shown():
    found = after(*(sliced(units) for units in range(MOST_EPOCHS + 5)))
    assert [work.units for work in found.epochs] == list(range(5, MOST_EPOCHS + 5))


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([10, 10, 10, 16], "rising"),
        ([10, 10, 10, 15], "steady"),
        ([10, 10, 10, 6], "falling"),
        ([10, 1_000, 9, 10], "steady"),
        ([10, 10, 99], "unknown"),
        ([10, 10, 10, None], "unknown"),
        ([None, None, 10, 10], "unknown"),
        ([0, 0, 0, 0], "steady"),
    ],
)
def test_a_trend_compares_the_newest_epoch_with_the_usual(numbers, found):
    """One outlier among the epochs before it does not hide or make a trend."""
    assert trend(numbers) == found


def test_a_line_says_which_units_how_and_why():
    assert described(after(sliced(1, None))) == "epoch 1 wrote 1 unit by slice"
    growing = after(*(sliced(units, 10 * units) for units in (10, 10, 10, 1_600)))
    assert described(growing) == (
        "epoch 4 wrote 1,600 units by slice, 16,000 rows read again (units rising, rows read rising)"
    )
    whole = after(UnitWork(technique=WHOLE, rows_read=7), refresh=ASKED_FOR)
    assert described(whole) == (
        "epoch 1 wrote the whole view by full, 7 rows read again; the job asks for refresh: full"
    )
