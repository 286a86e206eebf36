"""Statistics of a new file hold for every row, and are left out where that is not certain."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.lake.log.written_statistics import statistics_of

TYPES = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal(38,3)": pa.decimal128(38, 3),
}


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def statistics(tmp_path, table, fields, indexed=32, rows_in_group=None):
    pq.write_table(table, tmp_path / "file", row_group_size=rows_in_group, store_decimal_as_integer=True)
    return json.loads(statistics_of(pq.read_metadata(tmp_path / "file"), fields, indexed))


def of_column(tmp_path, kind, values, rows_in_group=None):
    """Return the lower bound, the upper bound and the number of nulls of one column."""
    table = pa.table({"c": pa.array(values, TYPES[kind])})
    found = statistics(tmp_path, table, [field("c", kind)], rows_in_group=rows_in_group)
    assert found["numRecords"] == len(values)
    assert found["tightBounds"] is True
    return found["minValues"].get("c"), found["maxValues"].get("c"), found["nullCount"].get("c")


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("integer", [3, None, -1], (-1, 3, 1)),
        ("long", [2**63 - 1, -(2**63)], (-(2**63), 2**63 - 1, 0)),
        ("string", ["b", "", "é"], ("", "é", 0)),
        ("date", [dt.date(2024, 2, 29), dt.date(1, 1, 1)], ("0001-01-01", "2024-02-29", 0)),
        ("decimal(10,2)", [Decimal("12.30"), Decimal("-0.01")], (-0.01, 12.3, 0)),
        ("integer", [None, None], (None, None, 2)),
    ],
)
def test_bounds_and_nulls_of_a_column(tmp_path, kind, values, expected):
    assert of_column(tmp_path, kind, values) == expected


@pytest.mark.parametrize("kind", ["double", "boolean", "binary"])
def test_some_types_have_no_bounds(tmp_path, kind):
    """A file with NaN may have bounds without it, and Spark takes NaN for the greatest number."""
    values = {"double": [1.0, float("nan"), None], "boolean": [True, None], "binary": [b"a", None]}[kind]
    assert of_column(tmp_path, kind, values) == (None, None, 1)


def test_all_row_groups_count(tmp_path):
    assert of_column(tmp_path, "integer", [5, 1, None, None, 9, 7], rows_in_group=2) == (1, 9, 2)


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", "Z"), ("timestamp_ntz", "")])
def test_instants_are_rounded_outwards_to_milliseconds(tmp_path, kind, zone):
    instant = dt.datetime(2024, 2, 3, 4, 5, 6, 789001, tzinfo=dt.UTC if zone else None)
    expected = (f"2024-02-03T04:05:06.789{zone}", f"2024-02-03T04:05:06.790{zone}", 0)
    assert of_column(tmp_path, kind, [instant]) == expected


def test_a_whole_millisecond_stays_as_it_is(tmp_path):
    instant = dt.datetime(2024, 2, 3, 4, 5, 6, 789000)
    assert of_column(tmp_path, "timestamp_ntz", [instant])[1] == "2024-02-03T04:05:06.789"


@pytest.mark.parametrize("kind", ["timestamp_ntz", "date"])
def test_an_instant_that_python_cannot_show_leaves_the_bounds_out(tmp_path, kind):
    stored = {"timestamp_ntz": pa.int64(), "date": pa.int32()}[kind]
    table = pa.table({"c": pa.array([-(2**31) + 1 if kind == "date" else -(2**62)], stored).cast(TYPES[kind])})
    assert statistics(tmp_path, table, [field("c", kind)])["minValues"] == {}


def test_the_last_instant_has_no_upper_bound(tmp_path):
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert of_column(tmp_path, "timestamp_ntz", [last]) == (None, None, 0)


def test_a_long_text_is_cut(tmp_path):
    assert of_column(tmp_path, "string", ["x" * 33]) == ("x" * 32, "x" * 32 + "\U0010ffff", 0)
    assert of_column(tmp_path, "string", ["x" * 32]) == ("x" * 32, "x" * 32, 0)


def test_a_text_that_goes_on_with_the_greatest_character_has_no_upper_bound(tmp_path):
    assert of_column(tmp_path, "string", ["x" * 32 + "\U0010ffff\U0010ffff"]) == ("x" * 32, None, 0)


def test_invalid_text_has_no_bounds(tmp_path):
    text = pa.array([b"\xff", b"a"]).view(pa.string())
    assert statistics(tmp_path, pa.table({"c": text}), [field("c", "string")])["maxValues"] == {}


def test_a_decimal_that_no_float_shows_has_no_bounds(tmp_path):
    digits = Decimal("12345678901234567890.123")
    assert of_column(tmp_path, "decimal(38,3)", [digits, Decimal(1)]) == (1.0, None, 0)


@given(values=st.lists(st.one_of(st.none(), st.text(max_size=40)), min_size=1))
def test_every_text_lies_between_the_bounds(tmp_path_factory, values):
    low, high, nulls = of_column(tmp_path_factory.getbasetemp(), "string", values)
    texts = [value for value in values if value is not None]
    assert nulls == len(values) - len(texts)
    assert low is None or all(low <= text for text in texts)
    assert high is None or all(high >= text for text in texts)


@given(values=st.lists(st.decimals(min_value=-(10**30), max_value=10**30, places=3), min_size=1))
def test_every_decimal_lies_between_the_bounds(tmp_path_factory, values):
    low, high, _ = of_column(tmp_path_factory.getbasetemp(), "decimal(38,3)", values)
    assert low is None or Decimal(repr(low)) == min(values)
    assert high is None or Decimal(repr(high)) == max(values)


def test_nested_fields_are_nested_and_arrays_have_nothing(tmp_path):
    struct = {"type": "struct", "fields": [field("x", "integer"), field("y", {"type": "array", "elementType": "long"})]}
    fields = [field("s", struct), field("m", {"type": "map", "keyType": "string", "valueType": "long"})]
    fields.append(field("last", "integer"))
    table = pa.table(
        {
            "s": pa.array([{"x": 1, "y": [7]}, None], pa.struct([("x", pa.int32()), ("y", pa.list_(pa.int64()))])),
            "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "last": pa.array([4, 5], pa.int32()),
        }
    )
    found = statistics(tmp_path, table, fields)
    assert found["minValues"] == {"s": {"x": 1}, "last": 4}
    assert found["nullCount"] == {"s": {"x": 1}, "last": 0}


@pytest.mark.parametrize(("indexed", "found"), [(1, {"a"}), (0, set()), (-1, {"a", "b"})])
def test_only_the_first_columns_have_statistics(tmp_path, indexed, found):
    table = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([1], pa.int32())})
    fields = [field("a", "integer"), field("b", "integer")]
    assert statistics(tmp_path, table, fields, indexed)["minValues"].keys() == found


def test_a_file_with_other_columns_has_only_a_count(tmp_path):
    table = pa.table({"a": pa.array([1], pa.int32())})
    assert statistics(tmp_path, table, [field("b", "integer")])["minValues"] == {}
    found = statistics(tmp_path, table, [field("a", "integer"), field("b", "integer")])
    assert (found["numRecords"], found["nullCount"]) == (1, {})
