"""A group with much of the upstream is named before its job is created, with what to do."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.jobs.planning.largest_unit import FOLDED, unit_warnings


@pytest.mark.parametrize("largest", [None, 0, 100])
def test_a_group_of_a_tenth_of_the_rows_is_no_reason_for_a_warning(largest):
    assert unit_warnings(largest, 1_000, remedy=FOLDED, reads_units=True) == []


@pytest.mark.parametrize(
    ("computes_anew", "reads_units", "advice"),
    [
        (True, True, ["strategy snapshot", "aggregates that can be folded, or group by more columns"]),
        (True, False, ["aggregates that can be folded, or group by more columns"]),
        (False, True, ["strategy snapshot"]),
        (False, False, []),
    ],
)
def test_a_larger_one_costs_what_the_technique_and_the_strategy_make_it_cost(computes_anew, reads_units, advice):
    found = unit_warnings(101, 1_000, remedy=FOLDED if computes_anew else "", reads_units=reads_units)
    assert len(found) == len(advice)
    for warning, what in zip(found, advice, strict=True):
        assert warning.startswith("the largest group has 101 rows, 10.1 % of all; ")
        assert what in warning
