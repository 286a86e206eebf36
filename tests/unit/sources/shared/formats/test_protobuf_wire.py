"""A message whose producer knew another version of its type is never read with other values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.sources.shared.formats.protobuf_values import decoded_messages
from airflow_backfill_provider.sources.shared.formats.protobuf_wire import misfit
from tests.protobuf_schemas import class_of, field, file_of, map_field, message, set_of

TOO_GREAT = "has a number in the field shop.Order.value that its type cannot hold"
OTHER_TYPE = "has the field shop.Order.value in another type"
ENUMS = {"Status": ["OPEN", "PAID"]}


def order_of(kind: str, *, many: bool = False) -> bytes:
    """Return descriptors of an order with one value."""
    return set_of(file_of(message("Order", field("value", kind, many=many)), enums=ENUMS))


def read(body: bytes, descriptors: bytes) -> tuple[Any, str | None]:
    (found,) = decoded_messages(pa.array([body], pa.binary()), descriptors, "shop.Order", None).to_pylist()
    return found["value"], found["error"]


def written(value: Any, kind: str, *, many: bool = False) -> bytes:
    body: bytes = class_of(order_of(kind, many=many), "shop.Order")(value=value).SerializeToString()
    return body


@pytest.mark.parametrize(
    ("value", "wrote", "reads", "error"),
    [
        (5_000_000_000, "int64", "int32", TOO_GREAT),
        (-5_000_000_000, "int64", "int32", TOO_GREAT),
        (1 << 31, "int64", "int32", TOO_GREAT),
        (1 << 32, "uint64", "uint32", TOO_GREAT),
        (1 << 31, "sint64", "sint32", TOO_GREAT),
        (1 << 40, "int64", ":shop.Status", TOO_GREAT),
        (2, "int32", "bool", TOO_GREAT),
        (7, "fixed64", "double", None),
        ((1 << 31) - 1, "int64", "int32", None),
        (-(1 << 31), "int64", "int32", None),
        (-(1 << 31), "sint64", "sint32", None),
        (70, "int32", "int64", None),
        (True, "bool", "int32", None),
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_a_number_that_the_type_cannot_hold_is_an_error(value, wrote, reads, error, many):
    if many:
        value = [value, value]
    found, problem = read(written(value, wrote, many=many), order_of(reads, many=many))
    assert problem == error
    assert (found is None) == (error is not None)


@pytest.mark.parametrize(
    ("value", "wrote", "reads"),
    [(1.5, "double", "float"), ("70", "string", "int32"), (70, "int32", "string"), (7, "fixed32", "int32")],
)
def test_a_field_of_another_type_is_an_error(value, wrote, reads):
    """The library takes it for a field that was not set."""
    assert read(written(value, wrote), order_of(reads)) == (None, OTHER_TYPE)


def test_it_is_found_in_messages_lists_and_maps_within():
    def descriptors(kind: str) -> bytes:
        line = message("Line", field("count", kind))
        parts = [field("first", ".shop.Line"), field("lines", ".shop.Line", many=True)]
        return set_of(file_of(line, message("Order", *parts, *map_field("shop.Order", "by_name", "string", kind))))

    order = class_of(descriptors("int64"), "shop.Order")
    in_map = order()
    in_map.by_name["a"] = 1 << 40
    for record in (order(first={"count": 1 << 40}), order(lines=[{}, {"count": 1 << 40}]), in_map):
        _, problem = read(record.SerializeToString(), descriptors("int32"))
        assert problem is not None
        assert "that its type cannot hold" in problem


def test_a_closed_enum_without_the_number_is_an_error():
    """The library leaves such a value out, so that the field would have another one."""
    file = file_of(message("Order", field("value", ":shop.Status")), enums=ENUMS)
    file.syntax = "proto2"
    assert read(b"\x08\x07", set_of(file)) == (None, TOO_GREAT)
    assert read(b"\x08\x01", set_of(file)) == ({"value": "PAID"}, None)


@pytest.mark.parametrize(
    "body",
    [
        b"\x98\x06\x01\x08\x05",
        b"\x08\x04\x08\x05",
        b"\x08\x85\x00",
        b"\x93\x06\x08\xff\xff\xff\xff\xff\x01\x94\x06\x08\x05",
        b"\x9a\x06\x03abc\x08\x05",
        b"\x9d\x06abcd\x99\x06abcdefgh\x08\x05",
    ],
)
def test_what_the_type_does_not_have_and_other_notations_change_nothing(body):
    """Unknown fields, also in a group; a field twice, of which the last counts; a number with needless bytes."""
    assert read(body, order_of("int32")) == ({"value": 5}, None)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4), st.booleans())
def test_values_are_the_same_or_refused(values, many):
    """I6: against Python's own comparison."""
    value = values if many else sum(values[:1])
    fits = all(-(1 << 31) <= number < 1 << 31 for number in (values if many else [value]))
    found, problem = read(written(value, "int64", many=many), order_of("int32", many=many))
    assert (problem is None) == fits
    if fits:
        assert found == {"value": value}


def test_a_message_within_its_type_is_found_to_be_so():
    for kind in ("int32", "sint64", "bool", "bytes", "double"):
        value = b"1" if kind == "bytes" else 1
        descriptor = class_of(order_of(kind), "shop.Order").DESCRIPTOR
        assert misfit(written(value, kind), descriptor) == ""
