"""When an epoch's changes of a dimension touch so much that computing the whole view costs less."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.refresh_cost import EpochCost
from airflow_backfill_provider.protocol.costly_changes import CostlyChanges
from airflow_backfill_provider.shapes.spread import Spread


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """An epoch costs as much as computing a thousand rows, and ten for each row of the lead that is joined anew."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "join", EpochCost(fixed=1_000, row=0.5, change=10))


def costly(rows, **means):
    return CostlyChanges(
        leads=["orders"], rows=rows, spreads={name: Spread(mean=mean, most=None) for name, mean in means.items()}
    )


def test_a_changed_row_counts_as_the_rows_of_the_lead_that_it_touches():
    """900 rows of the lead are the break-even: 90 customers, or 9 countries."""
    found = costly(20_000, customers=10.0, countries=100.0)

    assert found.limits == {"customers": 90, "countries": 9}
    assert list(found.warnings({"customers": 89, "countries": 8})) == []
    (warning,) = found.warnings({"customers": 89, "countries": 9})
    assert warning == (
        "at least 9 rows of countries changed, and about 900 rows of orders or more are joined anew; by the benchmark, "
        "a rebuild, which computes the whole view, costs less from there on"
    )


def test_groups_over_a_join_have_a_limit_of_their_own_by_an_estimate(monkeypatch):
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "fold over a join", EpochCost(fixed=1_000, row=0.5, change=20))
    found = replace(costly(20_000, customers=10.0), cost="fold over a join")

    assert found.limits == {"customers": 45}
    (warning,) = found.warnings({"customers": 45})
    assert "by an estimate, a rebuild" in warning


def test_a_table_whose_changes_are_not_counted_gives_no_warning():
    assert list(costly(20_000, customers=10.0).warnings({})) == []


def test_a_view_that_always_costs_less_to_compute_gives_no_warning():
    assert list(costly(2_000, customers=10.0).warnings({"customers": 1_000})) == []


def test_a_table_that_touches_nothing_gives_no_warning():
    assert list(costly(20_000, customers=0.0).warnings({"customers": 1_000})) == []


@given(
    rows=st.integers(0, 10**6),
    mean=st.integers(1, 10**6).map(lambda eighths: eighths / 8),
    changed=st.integers(0, 10**6),
)
def test_it_warns_exactly_from_the_break_even_on(rows, mean, changed):
    found = costly(rows, customers=mean)
    limit = refresh_cost.break_even("join", rows)

    warned = bool(list(found.warnings({"customers": changed})))

    assert warned == (limit > 0 and changed >= 1 and changed * mean >= limit)


def test_all_leads_of_a_union_are_named():
    found = replace(costly(20_000, customers=10.0), leads=["berlin", "paris"])
    (warning,) = found.warnings({"customers": 90})
    assert "about 900 rows of berlin and paris or more are joined anew" in warning
