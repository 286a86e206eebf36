"""The conditions of a query of rows, and which of them are decided without Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from airflow_backfill_provider.shapes.row.conditions import conditions_of, meets
from airflow_backfill_provider.shapes.row.query import check_query

ROW = {
    "status": "open",
    "amount": Decimal("3.50"),
    "n": 3,
    "nothing": None,
    "paid": True,
    "day": dt.date(2026, 1, 2),
    "weight": 1.5,
    "at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
}


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("", ()),
        ("WHERE a = 1", ("a = 1",)),
        ("WHERE a = 1 AND b BETWEEN 1 AND 2 AND c = 'x AND y'", ("a = 1", "b BETWEEN 1 AND 2", "c = 'x AND y'")),
        ("WHERE (a = 1 AND b = 2) AND c", ("(a = 1 AND b = 2)", "c")),
        ("WHERE a = 1 AND b = 2 OR c = 3", ("a = 1 AND b = 2 OR c = 3",)),
        ("WHERE CASE WHEN a = 1 AND b = 2 THEN c END AND d", ("CASE WHEN a = 1 AND b = 2 THEN c END", "d")),
    ],
)
def test_a_query_is_divided_into_its_conditions(where, conditions):
    assert conditions_of(check_query(f"SELECT id FROM upstream {where}")) == conditions


def test_the_conditions_of_several_steps_are_not_told_apart():
    assert conditions_of(check_query("SELECT id FROM (SELECT id, 1 AS b FROM upstream) WHERE b = 1")) is None


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("status = 'open'", True),
        ("u.Status <> 'open'", False),
        ("n >= 3 AND amount < 4", True),
        ("amount = 3.5", True),
        ("n = -3", False),
        ("n IN (1, 3)", True),
        ("n NOT IN (1, NULL)", False),
        ("n BETWEEN 1 AND 2", False),
        ("nothing = 1", False),
        ("nothing IS NULL", True),
        ("nothing IS NOT NULL", False),
        ("NOT (nothing = 1)", False),
        ("nothing = 1 OR paid", True),
        ("day >= '2026-01-02'", True),
        ("paid = true", True),
    ],
)
def test_a_comparison_with_a_literal_of_its_kind_is_decided(condition, met):
    """Null is not met, as in SQL."""
    assert meets(condition, ROW) is met


@pytest.mark.parametrize(
    "condition",
    [
        "length(status) = 4",
        "n = '3'",
        "status = 3",
        "weight > 1",
        "at > '2026-01-01'",
        "day > 'yesterday'",
        "n + 1 = 4",
        "n > 1e0",
        "status LIKE 'o%'",
        "missing = 1",
        "a.b.c = 1",
        "n IN (SELECT 1)",
        "paid = 1",
        "day <=> '2026-01-02'",
    ],
)
def test_everything_else_is_left_to_spark(condition):
    assert meets(condition, ROW) is None
