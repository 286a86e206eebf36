"""The arithmetic of races: medians, their ratios, and what an epoch costs by them."""

from __future__ import annotations

import statistics

import pytest

from airflow_backfill_provider.core.refresh_cost import EpochCost
from bench.figures import (
    COMPUTED,
    EPOCH,
    LARGE,
    MEDIUM,
    SMALL,
    Coefficients,
    Figure,
    coefficients,
    median,
    of_computing,
)

ROWS = {SMALL: 1_000, MEDIUM: 1_600, LARGE: 16_000}
CHANGES = {SMALL: 16, MEDIUM: 2, LARGE: 16}


def results(*figures):
    return {
        "figures": [
            {"what": found.what, "size": found.size, "kind": found.kind, "seconds": found.seconds} for found in figures
        ]
    }


def test_a_ratio_is_of_the_medians_of_one_view_at_one_size():
    found = results(
        *(Figure(EPOCH, LARGE, "join", seconds) for seconds in (1.0, 2.0, 9.0)),
        *(Figure(COMPUTED, LARGE, "join", seconds) for seconds in (4.0, 8.0, 5.0)),
        Figure(EPOCH, SMALL, "join", 100.0),
        Figure(EPOCH, LARGE, "star", 100.0),
    )

    assert of_computing(LARGE, "join")(found) == pytest.approx(2.0 / 5.0)


def test_a_figure_that_was_not_measured_has_no_median():
    with pytest.raises(statistics.StatisticsError):
        median(results(), EPOCH, LARGE, "join")


def test_costs_are_counted_in_the_rows_that_computing_all_reads_in_the_same_time():
    seconds_per_row, start = 0.001, 0.5
    fixed, row, change = 5_000, 0.25, 30

    def epoch(size):
        return start + seconds_per_row * (fixed + row * ROWS[size] + change * CHANGES[size])

    found = results(
        *(Figure(COMPUTED, size, "join", start + seconds_per_row * rows) for size, rows in ROWS.items()),
        *(Figure(EPOCH, size, "join", epoch(size)) for size in ROWS),
    )

    cost = coefficients(found, "join", CHANGES, ROWS)

    assert (cost.fixed, cost.row, cost.change) == (
        pytest.approx(fixed),
        pytest.approx(row),
        pytest.approx(change),
    )


def test_costs_are_printed_as_the_code_has_them():
    printed = Coefficients(fixed=5_912_345.6, row=0.9449, change=-3.0).entry
    assert eval(printed) == EpochCost(fixed=5_900_000, row=0.945, change=0)  # noqa: S307 - it is code
