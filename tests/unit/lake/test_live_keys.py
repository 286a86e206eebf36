"""The keys of the rows in some ranges, without Spark: when a driver has them, and which they are."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from airflow_backfill_provider.core.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake import live_keys as module
from airflow_backfill_provider.lake.live_keys import distinct, live_keys
from airflow_backfill_provider.lake.upstream import UpstreamTable
from tests.builders import order_of

LONG = order_of("long")


def table_of(path, *files):
    """Write a table of some files, given by their columns."""
    for columns in files:
        write_deltalake(path, pa.table(columns), mode="append")
    return UpstreamTable(str(path)).files_at(len(files) - 1)


def keys_of(found):
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_they_lie_in_one_of_the_ranges(tmp_path):
    files = table_of(tmp_path, {"k1": [1, 2, 3]}, {"k1": [4, 5, 6]}, {"k1": [7, 8, 9]})
    ranges = [KeyRange(None, (2,)), KeyRange((5,), (7,))]
    assert keys_of(live_keys(files, LONG, ranges)) == [(1,), (2,), (6,), (7,)]
    assert keys_of(live_keys(files, LONG, [KeyRange((9,), None)])) == []


def test_a_table_without_rows_has_none(tmp_path):
    DeltaTable.create(str(tmp_path), schema=pa.schema([("k1", pa.int64())]))
    found = live_keys(UpstreamTable(str(tmp_path)).files_at(0), LONG, [EVERYTHING])
    assert (found.num_rows, distinct(found), found.schema) == (0, 0, pa.schema([("k1", pa.int64())]))


def test_a_key_that_several_rows_have_is_there_as_often(tmp_path):
    files = table_of(tmp_path, {"k1": [1, None, 2]}, {"k1": [2, None]})
    found = live_keys(files, LONG, [EVERYTHING])
    assert (found.num_rows, distinct(found)) == (5, 3)


def test_a_file_that_is_older_than_a_column_of_the_key_has_null_there(tmp_path):
    write_deltalake(tmp_path, pa.table({"k2": [1, 2]}))
    DeltaTable(tmp_path).alter.add_columns([Field("k1", PrimitiveType("string"))])
    write_deltalake(tmp_path, pa.table({"k2": [1], "k1": ["a"]}), mode="append")
    files, order = UpstreamTable(str(tmp_path)).files_at(2), order_of("string", "long")
    assert live_keys(files, order, [KeyRange((None,), None)]).to_pylist() == [{"k1": "a", "k2": 1}]
    assert live_keys(files, order, [KeyRange(None, (None, 1))]).to_pylist() == [{"k1": None, "k2": 1}]


def test_bounds_of_decimals_keep_no_file_out(tmp_path):
    """deltalake writes them as rounded numbers, so that a key may lie outside of its file's."""
    first, second = Decimal("99999999999999.9250"), Decimal("99999999999999.9290")
    order = KeyOrder((KeyField(name="k1", type="decimal(18,4)"),))
    files = table_of(tmp_path, {"k1": pa.array([first, second], pa.decimal128(18, 4))})
    assert keys_of(live_keys(files, order, [KeyRange((first,), (second,))])) == [(second,)]


@pytest.mark.parametrize(("limit", "reached"), [("MOST_KEYS", 5), ("MOST_FILES", 2), ("MOST_MASKED", 5)])
def test_too_many_are_left_to_spark(tmp_path, monkeypatch, limit, reached):
    files = table_of(tmp_path, {"k1": [1, 2, 3]}, {"k1": [4, 5]})
    monkeypatch.setattr(module, limit, reached)
    assert live_keys(files, LONG, [EVERYTHING]).num_rows == 5
    monkeypatch.setattr(module, limit, reached - 1)
    assert live_keys(files, LONG, [EVERYTHING]) is None


def test_files_behind_the_ranges_do_not_count(tmp_path, monkeypatch):
    files = table_of(tmp_path, {"k1": [1, 2, 3]}, {"k1": [4, 5]})
    monkeypatch.setattr(module, "MOST_KEYS", 2)
    assert keys_of(live_keys(files, LONG, [KeyRange((4,), None)])) == [(5,)]


def test_of_a_masked_file_those_rows_are_left_that_the_mask_does_not_hide_and_all_behind_its_end(tmp_path):
    files = table_of(tmp_path, {"k1": [1, 2, 3]})
    (file,) = files.files(LONG)
    for mask, left in (([False], [(2,), (3,)]), ([False, True, False], [(2,)]), ([True, False] * 4, [(1,), (3,)])):
        assert keys_of(module._live(files.keys(LONG), file, pa.array(mask))) == left
