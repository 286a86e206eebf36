"""Public bugs of others in joins, each as a tiny example by its meaning."""

from __future__ import annotations

import pytest

from tests.model import joins_catalog as joins
from tests.model.groups_queries import DISTINCT, TOTALS
from tests.model.joins_examples import a_view, after_windows, labels
from tests.model.joins_tables import Record

pytestmark = pytest.mark.slow  # many histories


@pytest.mark.parametrize("ends", [(1, 2, 3), (3,)], ids=["in three windows", "in one window"])
def test_a_dimension_row_that_came_and_went_leaves_the_lead_without_a_match(ends: tuple[int, ...]) -> None:
    """risingwave#2420: dimension row 3 is inserted and deleted; then lead 3 comes. It gives (3, null)."""
    view = a_view(
        joins.TWO,
        {"orders": [[], [], [], [Record(3, first=3)]], "customers": [[], [Record(3)], [], []], "products": [[]]},
    )
    assert labels(after_windows(view, *ends)) == [(3, None, None)]


def test_a_condition_that_is_not_met_keeps_the_lead_of_a_left_join() -> None:
    """risingwave#15257: ``ON id1 = id2 AND a1 > a2`` over (1, 10) and (1, 11) gives the lead and nulls."""
    tables = {"orders": [[], [Record(1, first=1, number=10)]], "customers": [[], [Record(1, label="a", number=11)]]}
    assert labels(after_windows(a_view(joins.CONDITION, tables), 1)) == [(1, None)]


def test_a_match_that_a_change_makes_or_ends_replaces_the_row_before() -> None:
    """FLINK-40841: the dimension's number goes up and down, and the match with it. The old row never stays."""
    orders = [[Record(1, first=1, number=5)]]
    customers = [[Record(1, label="a", number=number)] for number in (10, 0, 10)]
    view = a_view(joins.CONDITION, {"orders": orders, "customers": customers})
    assert labels(after_windows(view)) == [(1, None)]
    assert labels(after_windows(view, 1)) == [(1, "a")]
    assert labels(after_windows(view, 2)) == [(1, None)]


def test_a_renamed_dimension_and_a_deleted_lead_in_one_window() -> None:
    """pg-trickle#409: one of two leads goes, and their dimension is renamed. One row is left, under the new name."""
    orders = [[Record(1, first=1, number=1), Record(2, first=1, number=2)], [Record(2, first=1, number=2)]]
    countries = [[Record(1, label="a")], [Record(1, label="b")]]
    tables = {"orders": orders, "customers": [[Record(1, first=1)]], "countries": countries}
    assert after_windows(a_view(joins.CHAIN_INNER, tables, TOTALS), 1) == [("b", 1, 1, 2, 2.0, 2, 2)]


def test_both_sides_change_in_each_of_twenty_windows() -> None:
    """pg-trickle#464: no row is left of what was there in between."""
    orders = [[Record(k, first=(k + n) % 3, number=n) for k in range(3 + n % 2)] for n in range(21)]
    customers = [[Record(k, label="abc"[(k * n) % 3]) for k in range(n % 4)] for n in range(21)]
    view = a_view(joins.TWO, {"orders": orders, "customers": customers, "products": [[]]})
    for end in range(1, 21):
        names = {customer.key: customer.label for customer in customers[end]}
        expected = [(order.key, names.get(order.first or 0), None) for order in orders[end]]
        assert labels(after_windows(view, end)) == sorted(expected)


@pytest.mark.parametrize("stage_2", [TOTALS, DISTINCT], ids=lambda query: query.name)
def test_a_group_by_a_column_of_a_dimension_moves_when_that_is_renamed(stage_2) -> None:
    """FLINK-20370: the row of the old name vanishes."""
    cities = [[Record(1, label="a")], [Record(1, label="b")]]
    tables = {"orders": [[Record(1, first=1)]], "customers": cities, "products": [[]]}
    assert [row[0] for row in after_windows(a_view(joins.TWO, tables, stage_2), 1)] == ["b"]


def test_null_references_match_nothing_on_either_side() -> None:
    """materialize#26352: a left join of two dimensions, with null join values in both tables."""
    orders = [[Record(1, code=None), Record(2, code=5)], [Record(1, code=None), Record(2, code=None)]]
    customers = [[Record(1, label="a", code=None), Record(2, label="b", code=5)]]
    view = a_view(joins.CODE, {"orders": orders, "customers": customers})
    assert labels(after_windows(view)) == [(1, None), (2, "b")]
    assert labels(after_windows(view, 1)) == [(1, None), (2, None)]
