"""The types of values of Avro; that Spark has the same ones is tested with Spark."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.avro_types import avro_column_type
from airflow_backfill_provider.sources.shared.formats.column_types import array_type, map_type, struct_type

ENUM = {"type": "enum", "name": "Kind", "symbols": ["A"]}


def record(*fields, name="Order", **more):
    return {"type": "record", "name": name, **more, "fields": [{"name": of, "type": kind} for of, kind in fields]}


def type_of(schema):
    return avro_column_type(json.dumps(schema), "schema_file order.avsc")


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("string", "string"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "int", "logicalType": "time-millis"}, "integer"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "decimal(9,0)"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        (ENUM, "string"),
        (["null", "long"], "long"),
        (["long", "int"], "long"),
        (["null", "double", "float"], "double"),
        ({"type": {"type": "array", "items": ["null", "int"]}}, array_type("integer")),
        ({"type": "map", "values": "bytes"}, map_type("binary")),
    ],
)
def test_a_schema_has_the_type_that_spark_reads(schema, kind):
    assert type_of(schema) == kind


def test_a_name_means_the_type_that_was_defined_before_it():
    inner = record(("kind", ENUM), name="Line", namespace="shop.lines")
    order = record(("line", inner), ("next", "shop.lines.Line"), ("kind", "shop.lines.Kind"), namespace="shop")
    line = struct_type([("kind", "string")])
    assert type_of(order) == struct_type([("line", line), ("next", line), ("kind", "string")])


def test_a_name_without_a_namespace_is_of_the_enclosing_one():
    order = record(("a", {**ENUM, "name": "x.Kind"}), ("b", ENUM), ("c", "Kind"), namespace="shop")
    assert type_of(order) == struct_type([("a", "string"), ("b", "string"), ("c", "string")])


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (["int", "string"], "the value is a union of several types"),
        (record(("pay", [record(("x", "int"), name="A"), record(("y", "int"), name="B")])), "pay is a union"),
        (record(("next", ["null", "Order"])), "next has the type Order, which contains itself"),
        (record(("kind", "Sort")), "kind has the type Sort, which is neither Avro's nor defined before"),
        (record(("nothing", "null")), "nothing is always null"),
        (["null"], "is a union of several types|is always null"),
        (record(("a", "int"), ("A", "int")), "record Order has the field A twice"),
        (record(), "a record without fields"),
        ({"type": "record", "name": "Order"}, 'lacks "fields"'),
        ({"type": "record", "fields": []}, 'lacks "name"'),
        ({"type": "record", "name": "Order", "fields": ["a"]}, "fields are no list of objects with names"),
        ({"type": "array"}, 'lacks "items"'),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "a decimal without a precision of 1 to 38"),
        ({"type": "bytes", "logicalType": "decimal"}, "a decimal without a precision"),
        ({"type": "long", "logicalType": "time-micros"}, "a time of day"),
        ({"type": "int", "spark.sql.catalyst.type": "interval year"}, "the property spark.sql.catalyst.type"),
        ({}, "neither a name, an object nor a list"),
        (5, "neither a name, an object nor a list"),
        (record(("outer", record(("inner", ["int", "string"]), name="Inner"))), "outer.inner is a union"),
    ],
)
def test_what_has_no_column_is_refused_by_its_name(schema, says):
    with pytest.raises(InvalidJobError, match=says) as caught:
        type_of(schema)
    assert str(caught.value).startswith("schema_file order.avsc: ")


def test_a_text_that_is_no_json_is_refused():
    with pytest.raises(InvalidJobError, match="schema_file x is no Avro schema, because it is no JSON"):
        avro_column_type("record Order {}", "schema_file x")


PARTS = st.recursive(
    st.sampled_from(["int", "null", "record", "array", "Order", 1, None, True]),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.dictionaries(
            st.sampled_from(["type", "items", "values", "name", "fields", "namespace", "logicalType", "precision"]),
            parts,
            max_size=4,
        ),
    ),
    max_leaves=10,
)


@given(PARTS)
def test_any_other_json_is_refused_and_never_fails_otherwise(schema):
    try:
        type_of(schema)
    except InvalidJobError:
        return
