"""Conditions on what is read of a control table, and what a decision writes."""

from __future__ import annotations

from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import Write
from tests.unit.state.counted_table import add_next, numbers, row


def test_rows_from_a_value_on_are_a_condition(table):
    for _ in range(3):
        add_next(table)
    assert numbers(table, str(AtLeast("n", 2))) == [2, 3]


def test_a_write_appends_unless_it_says_otherwise():
    assert Write(row(1)).mode == "append"
