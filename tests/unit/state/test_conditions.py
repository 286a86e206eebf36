"""Conditions on what is read of a control table, and what a decision writes."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.state.conditions import Since, text_literal
from airflow_backfill_provider.state.control_table import Write
from tests.unit.state.counted_table import add_next, numbers, row


@pytest.mark.parametrize("text", ["", "'", "''", "a'; DROP TABLE control; --", "\\'", "ü\n\u2028", '"', "%", "`", "{}"])
def test_a_text_in_a_condition_is_nothing_but_text(table, text):
    """A hostile name stays inside of its quotes."""
    table.update(lambda _: Write(row(1, text)))
    table.update(lambda _: Write(row(2, text + "x")))
    assert numbers(table, f"who = {text_literal(text)}") == [1]


def test_rows_from_a_value_on_are_a_condition(table):
    for _ in range(3):
        add_next(table)
    assert numbers(table, str(Since("n", 2))) == [2, 3]


def test_a_write_appends_unless_it_says_otherwise():
    assert Write(row(1)).mode == "append"
