"""Which columns the names in the log mean."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.postgres.logged_names import numbers_of
from airflow_backfill_provider.sources.shared.postgresql.rewrites import Attribute

LAST_LOOK = 100


def live(number, name):
    return Attribute(number, name, is_dropped=False, written_by=50)


def dropped(number, written_by):
    return Attribute(number, f"........pg.dropped.{number}........", is_dropped=True, written_by=written_by)


def numbers(names, *attributes, of_table=None):
    return numbers_of(names.split(), attributes, lambda transaction: transaction >= LAST_LOOK, of_table)


@pytest.mark.parametrize(
    ("names", "attributes", "expected"),
    [
        ("id a b", [live(1, "id"), live(2, "a"), live(3, "b")], {"id": "1", "a": "2", "b": "3"}),
        # Swapped when they were logged.
        ("id b a", [live(1, "id"), live(2, "a"), live(3, "b")], {"id": "1", "b": "2", "a": "3"}),
        # Renamed since.
        ("id old", [live(1, "id"), live(2, "new")], {"id": "1", "old": "2"}),
        # Added since.
        ("id", [live(1, "id"), live(2, "new")], {"id": "1"}),
        # Dropped long ago.
        ("id b", [live(1, "id"), dropped(2, 50), live(3, "b")], {"id": "1", "b": "3"}),
        # Dropped since the last look, and still there when it was logged; then gone when it was logged.
        ("id a b", [live(1, "id"), dropped(2, 150), live(3, "b")], {"id": "1", "a": "", "b": "3"}),
        ("id b", [live(1, "id"), dropped(2, 150), live(3, "b")], {"id": "1", "b": "3"}),
        # Dropped and added again under its name.
        ("id a b", [live(1, "id"), dropped(2, 150), live(3, "b"), live(4, "a")], {"id": "1", "a": "", "b": "3"}),
        ("id b a", [live(1, "id"), dropped(2, 150), live(3, "b"), live(4, "a")], {"id": "1", "b": "3", "a": "4"}),
        # The last one of all was dropped.
        ("id a", [live(1, "id"), dropped(2, 150)], {"id": "1", "a": ""}),
        # More than there can be.
        ("id a b", [live(1, "id")], {"id": "1", "a": "", "b": ""}),
    ],
)
def test_a_name_means_the_column_at_its_place(names, attributes, expected):
    assert numbers(names, *attributes) == expected


def test_columns_of_a_partition_have_the_numbers_of_the_table():
    """A partition that was made on its own may have them in another order."""
    of_table = {"id": 1, "a": 2, "b": 3}
    partition = [live(1, "b"), live(3, "a"), live(4, "id")]
    assert numbers("b a id", *partition, of_table=of_table) == {"b": "3", "a": "2", "id": "1"}
    assert numbers("a b id", *partition, of_table=of_table) == {"a": "3", "b": "2", "id": "1"}
