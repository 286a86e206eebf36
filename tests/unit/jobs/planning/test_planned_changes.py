"""An epoch in which a small part of one of several upstreams changes, as a plan foresees it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.refresh_cost import EpochCost
from airflow_backfill_provider.jobs.planning.planned_changes import planned_changes
from airflow_backfill_provider.shapes.spread import Branch, Spread

ROWS = {"orders": 20_000, "customers": 2_000, "countries": 20}
WHOLE = {"customers": 2_000, "countries": 20}
SPREADS = {"customers": Spread(mean=10.0, most=25), "countries": Spread(mean=1_000.0, most=None)}
STAR = Branch(lead="orders", spreads=SPREADS)


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """Of 20,000 orders, 900 are the break-even."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "join", EpochCost(fixed=1_000, row=0.5, change=10))


def test_changed_leads_are_joined_anew_and_the_lead_is_not_read_whole():
    lead = planned_changes([STAR], ROWS)["orders"]
    assert (lead.changed, lead.touched, lead.touched_at_most) == (20, 20, 20)
    assert lead.reads == WHOLE
    assert lead.break_even == 900


def test_a_changed_row_of_another_table_joins_all_rows_anew_that_it_touches():
    customers = planned_changes([STAR], ROWS)["customers"]
    assert (customers.changed, customers.touched, customers.touched_at_most) == (2, 20, 50)
    assert customers.reads == {"orders": 20_000, **WHOLE}
    assert customers.break_even == 90


def test_at_least_one_row_changes_and_what_is_not_counted_has_no_most():
    countries = planned_changes([STAR], ROWS)["countries"]
    assert (countries.changed, countries.touched, countries.touched_at_most) == (1, 1_000, None)
    assert countries.break_even == 1


def test_a_lead_that_is_joined_with_itself_is_read_whole_and_a_change_touches_more_than_itself():
    spreads = {"orders": Spread(mean=1.0, most=None), **SPREADS}
    lead = planned_changes([Branch(lead="orders", spreads=spreads)], ROWS)["orders"]
    assert (lead.changed, lead.touched, lead.touched_at_most) == (20, 40, None)
    assert lead.reads == {**WHOLE, "orders": 20_000}


def test_groups_over_a_join_cost_what_they_are_named_by(monkeypatch):
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "fold over a join", EpochCost(fixed=1_000, row=0.5, change=20))
    found = planned_changes([STAR], ROWS, cost="fold over a join")
    assert {name: change.break_even for name, change in found.items()} == {
        "orders": 450,
        "customers": 45,
        "countries": 1,
    }
    assert {change.cost for change in found.values()} == {"fold over a join"}


def test_if_all_rows_of_a_table_touch_little_a_rebuild_never_costs_less():
    """50 customers with ten orders each: 500 of them change at most."""
    rows = {"orders": 20_000, "customers": 50}
    found = planned_changes([Branch(lead="orders", spreads={"customers": Spread(mean=10.0, most=None)})], rows)
    assert found["customers"].break_even is None


def test_of_few_leads_computing_all_always_costs_less():
    rows = {"orders": 2_000, "customers": 100}
    found = planned_changes([Branch(lead="orders", spreads={"customers": Spread(mean=20.0, most=None)})], rows)
    assert [change.break_even for change in found.values()] == [0, 0]


def test_groups_that_are_computed_anew_read_all_tables_whichever_changes():
    found = planned_changes([STAR], ROWS, always=tuple(ROWS))
    assert [change.reads for change in found.values()] == [ROWS, ROWS, ROWS]


@pytest.fixture
def united():
    """A shop's orders with their customers, and another shop's orders alone; 900 changed rows are the break-even."""
    shops = [Branch(lead="berlin", spreads={"customers": Spread(mean=6.0, most=12)}), Branch(lead="paris")]
    return planned_changes(shops, {"berlin": 12_000, "paris": 8_000, "customers": 2_000})


def test_of_a_union_only_the_branches_of_what_changed_are_read(united):
    assert {name: (change.leads, change.touched, change.reads) for name, change in united.items()} == {
        "berlin": (("berlin",), 12, {"customers": 2_000}),
        "paris": (("paris",), 8, {}),
        "customers": (("berlin",), 12, {"berlin": 12_000, "customers": 2_000}),
    }
    assert united["customers"].touched_at_most == 24


def test_of_a_union_computing_the_whole_view_reads_all_leads(united):
    assert {name: change.break_even for name, change in united.items()} == {
        "berlin": 900,
        "paris": 900,
        "customers": 150,
    }


def test_a_table_in_several_branches_touches_rows_of_each():
    """It leads one and is joined in the other."""
    branches = [Branch(lead="a", spreads={"b": Spread(mean=2.0, most=3)}), Branch(lead="b")]
    found = planned_changes(branches, {"a": 10_000, "b": 5_000})["b"]
    assert (found.leads, found.touched, found.touched_at_most) == (("a", "b"), 15, 20)
    assert found.reads == {"a": 10_000, "b": 5_000}
