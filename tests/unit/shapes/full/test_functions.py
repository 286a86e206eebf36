"""The list of functions for views that are computed whole is consistent with those of all shapes."""

from __future__ import annotations

from airflow_backfill_provider.shapes import functions as known
from airflow_backfill_provider.shapes.full.functions import FULL_FUNCTIONS, PLAIN_GENERATORS
from airflow_backfill_provider.shapes.group.functions import GROUP_FUNCTIONS


def test_each_function_is_known_and_deterministic() -> None:
    """A name that is on no list of Spark's functions would be taken for a user's function."""
    assert known.GENERATORS > PLAIN_GENERATORS
    assert FULL_FUNCTIONS > GROUP_FUNCTIONS
    assert known.AGGREGATES >= FULL_FUNCTIONS - GROUP_FUNCTIONS - PLAIN_GENERATORS
    assert not FULL_FUNCTIONS & (known.NON_DETERMINISTIC | known.TABLE_FUNCTIONS)
