"""The lists of functions of groups are consistent with those of all shapes."""

from __future__ import annotations

from airflow_backfill_provider.shapes import functions as known
from airflow_backfill_provider.shapes.group.functions import GROUP_FUNCTIONS, GROUPED_AGGREGATES, ORDERED_WINDOWS, RANKS


def test_each_function_is_known_and_deterministic():
    """A name that is on no list of Spark's functions would be taken for a user's function."""
    assert known.AGGREGATES >= GROUPED_AGGREGATES
    assert known.WINDOW_FUNCTIONS == ORDERED_WINDOWS | RANKS
    assert not GROUP_FUNCTIONS & (known.NON_DETERMINISTIC | known.GENERATORS | known.TABLE_FUNCTIONS)
