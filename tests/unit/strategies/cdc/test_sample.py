"""The sample of keys: written once, and read back in key order."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.strategies.cdc.sample import read_sample, write_sample
from tests.builders import logged, order_of

EVERY_KIND = order_of(
    "long", ("string", True), "decimal(20,2)", "date", "timestamp", "timestamp_ntz", ("binary", True), "boolean"
)
AT = dt.datetime(2024, 2, 29, 1, 2, 3, 4)
KEYS = [
    (-5, "ü'\"\\", Decimal("-1.50"), dt.date(2024, 2, 29), AT.replace(tzinfo=dt.UTC), AT, b"\x00\xff", True),
    (2**62, "", Decimal("100000.00"), dt.date(1, 1, 1), AT.replace(tzinfo=dt.UTC), AT, b"", False),
]


@pytest.fixture
def location(lake):
    return str(lake / "sample")


def test_keys_of_all_types_are_read_back(location):
    write_sample(location, KEYS, EVERY_KIND, None)
    assert read_sample(location, EVERY_KIND, None) == KEYS


def test_keys_are_read_back_in_the_order_in_which_they_were_written(location):
    """As texts they have another order, and the files of a table have none."""
    order = order_of(("long", True))
    keys = [(number,) for number in range(1_000, -1_000, -1)]
    write_sample(location, keys, order, None)
    assert read_sample(location, order, None) == keys
    stored = DeltaTable(location).to_pyarrow_table()
    write_deltalake(location, stored.take(list(range(1, 2_000, 2)) + list(range(0, 2_000, 2))), mode="overwrite")
    assert read_sample(location, order, None) == keys


def test_a_sample_that_was_written_is_kept(location):
    """Another attempt of the same epoch samples other keys."""
    order = order_of("long")
    write_sample(location, [(1,), (2,)], order, None)
    before = logged(location)
    write_sample(location, [(7,)], order, {})
    assert read_sample(location, order, {}) == [(1,), (2,)]
    assert logged(location) == before


def test_an_upstream_without_rows_has_an_empty_sample(location):
    order = order_of("long")
    write_sample(location, [], order, None)
    assert read_sample(location, order, None) == []
    write_sample(location, [(1,)], order, None)
    assert read_sample(location, order, None) == []


def test_without_a_sample_there_are_no_keys(location):
    assert read_sample(location, order_of("long"), None) == []


def test_a_sample_of_another_key_is_refused(location):
    write_sample(location, [("a",)], order_of("string"), None)
    with pytest.raises(StateLayoutError, match="key column 'k1' is not of type long"):
        read_sample(location, order_of("long"), None)
