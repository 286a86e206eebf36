"""What columns messages of Protobuf become."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import sql_name
from airflow_backfill_provider.sources.shared.formats.protobuf_types import places_of_messages, protobuf_column_type
from tests.protobuf_schemas import field, file_of, map_field, message, set_of


def sql_of(descriptors: bytes, name: str = "shop.Order") -> str:
    return sql_name(protobuf_column_type(descriptors, name, "descriptor_file x"))


@pytest.mark.parametrize(
    ("kinds", "column"),
    [
        (("int32", "sint32", "sfixed32"), "INT"),
        (("int64", "sint64", "sfixed64", "uint32", "fixed32"), "BIGINT"),
        (("uint64", "fixed64"), "DECIMAL(20,0)"),
        (("bool",), "BOOLEAN"),
        (("float",), "FLOAT"),
        (("double",), "DOUBLE"),
        (("string", ":shop.Status"), "STRING"),
        (("bytes",), "BINARY"),
        ((".shop.Line",), "STRUCT<sku: STRING>"),
    ],
)
def test_a_type_holds_every_value(kinds, column):
    line = message("Line", field("sku", "string"))
    for kind in kinds:
        order = message("Order", field("one", kind), field("many", kind, many=True))
        found = sql_of(set_of(file_of(order, line, enums={"Status": ["OPEN"]})))
        assert found == f"STRUCT<one: {column}, many: ARRAY<{column}>>"


def test_a_map_keeps_the_type_of_its_keys():
    order = message("Order", *map_field("shop.Order", "amounts", "int64", "double"))
    assert sql_of(set_of(file_of(order))) == "STRUCT<amounts: MAP<BIGINT, DOUBLE>>"


def test_a_message_inside_another_one_has_a_name_of_its_own():
    order = message("Order", message("Line", field("sku", "string")), field("line", ".shop.Order.Line"))
    descriptors = set_of(file_of(order))
    assert sql_of(descriptors) == "STRUCT<line: STRUCT<sku: STRING>>"
    assert sql_of(descriptors, "shop.Order.Line") == "STRUCT<sku: STRING>"


@pytest.mark.parametrize(
    ("order", "problem"),
    [
        (message("Order", field("next", ".shop.Order")), "shop.Order contains itself"),
        (message("Order"), "shop.Order has no fields"),
        (message("Order", field("id", "int64"), field("ID", "int64")), "the field ID twice"),
    ],
)
def test_what_no_column_can_hold_is_refused(order, problem):
    with pytest.raises(InvalidJobError, match=problem):
        sql_of(set_of(file_of(order)))


def test_a_group_is_refused():
    inner = message("Inner", field("id", "int64"))
    group = field("inner", ".shop.Order.Inner")
    group.type = group.TYPE_GROUP
    file = file_of(message("Order", inner, group))
    file.syntax = "proto2"
    with pytest.raises(InvalidJobError, match="shop.Order.inner is a group"):
        sql_of(set_of(file))


@pytest.mark.parametrize(
    ("descriptors", "problem"),
    [
        (b"no set", "descriptor_file x is no whole set of descriptors; make it with protoc"),
        (set_of(file_of(message("Other"))), "has no message shop.Order; it has shop.Other"),
        (set_of(file_of(message("Order"), dependency=["google/protobuf/any.proto"])), "is no whole set of descriptors"),
    ],
)
def test_an_unusable_set_is_refused(descriptors, problem):
    with pytest.raises(InvalidJobError, match=problem):
        sql_of(descriptors)


def test_a_message_is_found_by_where_it_stands():
    inner = message("Inner", field("id", "int64"))
    outer = message("Outer", message("First", field("id", "int64")), message("Second", inner))
    found = places_of_messages(file_of(message("Order"), outer).SerializeToString())
    assert found == {
        (0,): "shop.Order",
        (1,): "shop.Outer",
        (1, 0): "shop.Outer.First",
        (1, 1): "shop.Outer.Second",
        (1, 1, 0): "shop.Outer.Second.Inner",
    }
