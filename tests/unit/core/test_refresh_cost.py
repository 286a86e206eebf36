"""When computing the whole view costs less than applying changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.refresh import Refresh
from airflow_backfill_provider.core.refresh_cost import (
    EPOCH_COSTS,
    EpochCost,
    break_even,
    cheaper_refresh,
    described_break_even,
    over_join,
)


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """An epoch of a fold costs as much as computing a thousand rows, and ten for each change."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "fold", EpochCost(fixed=1_000, row=0.5, change=10))


@pytest.mark.parametrize(("rows", "limit"), [(0, 0), (2_000, 0), (2_001, 1), (4_000, 100), (20_000, 900)])
def test_the_break_even_grows_with_the_upstream(rows, limit):
    assert break_even("fold", rows) == limit


@pytest.mark.parametrize(
    ("rows", "changes", "whole", "reason"),
    [
        (2_000, 1, True, "computing all of 2,000 rows costs less than any fold"),
        (4_000, 99, False, "about 99 rows changed, and below 100 rows a fold costs less"),
        (4_000, 100, True, "at least 100 rows changed, and from there on computing the whole view costs less"),
        (4_000, None, False, "the upstream does not tell how many rows changed"),
    ],
)
def test_an_epoch_does_what_costs_less_and_says_why(rows, changes, whole, reason):
    chosen = cheaper_refresh("fold", rows=rows, changes=changes)
    assert (chosen.whole, chosen.reason) == (whole, reason)


@given(st.sampled_from(sorted(EPOCH_COSTS)), st.integers(0, 10**12), st.integers(0, 10**9))
def test_what_was_chosen_does_cost_less(technique, rows, changes):
    """The choice compares the two costs, in rows that computing the whole view reads."""
    cost = EPOCH_COSTS[technique]
    by_changes = cost.fixed + cost.row * rows + cost.change * changes
    whole = cheaper_refresh(technique, rows=rows, changes=changes).whole
    assert whole == (by_changes >= rows) or abs(by_changes - rows) <= cost.change


def test_the_break_even_in_words():
    assert described_break_even("fold", 100, 4_000, Refresh.INCREMENTAL) == (
        "by the benchmark, computing the whole view costs less if more than about 100 rows (2.5 %) change between two "
        "epochs; refresh: auto chooses for each epoch"
    )
    assert described_break_even("fold", 100, 4_000, Refresh.AUTO).endswith("between two epochs; each epoch chooses")
    always = "by the benchmark, computing the whole view always costs less for 10 rows: "
    assert described_break_even("fold", 0, 10, Refresh.INCREMENTAL) == always + "set refresh: full, or auto"
    assert described_break_even("fold", 0, 10, Refresh.AUTO) == always + "each epoch does that"


def test_what_is_only_estimated_says_so_and_counts_the_rows_that_are_joined_anew():
    """Groups over a join cost what their two stages do, in rows of a statement that has both stages, too."""
    join, groups = EPOCH_COSTS["join"], EPOCH_COSTS["slice"]
    both = EPOCH_COSTS[over_join("slice")]
    assert (both.fixed, both.row, both.change) == (
        (join.fixed + groups.fixed) / 2,
        (join.row + groups.row) / 2,
        (join.change + groups.change) / 2,
    )
    limit = break_even(over_join("slice"), 20_000_000)
    assert cheaper_refresh(over_join("slice"), rows=20_000_000, changes=1).reason == (
        f"by an estimate, about 1 row would be joined anew, and below {limit:,} rows a slice over a join costs less"
    )
    assert described_break_even(over_join("slice"), 100, 4_000, Refresh.AUTO) == (
        "by an estimate, computing the whole view costs less if more than about 100 rows (2.5 %) are joined anew "
        "between two epochs; each epoch chooses"
    )
