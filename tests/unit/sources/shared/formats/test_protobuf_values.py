"""What messages of Protobuf become: each exactly, or an error says why."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.sources.shared.formats.protobuf_values import NO_MESSAGE, decoded_messages
from tests.protobuf_schemas import class_of, field, file_of, framed, map_field, message, set_of

LINE = message("Line", field("sku", "string"), field("count", "uint64"))
ORDER = message(
    "Order",
    field("id", "int64"),
    field("note", "string", optional=True),
    field("status", ":shop.Status"),
    field("lines", ".shop.Line", many=True),
    field("first", ".shop.Line"),
    *map_field("shop.Order", "tags", "string", "bytes"),
)
DESCRIPTORS = set_of(file_of(ORDER, LINE, enums={"Status": ["OPEN", "PAID"]}))
Order = class_of(DESCRIPTORS, "shop.Order")
NOTHING = {"id": 0, "note": None, "status": "OPEN", "lines": [], "first": None, "tags": []}
PLACES = {7: {(0,): "shop.Order", (1,): "shop.Line", (1, 0): "shop.Line.Inner"}}


def read(*records: bytes | None, writers: Any = None, name: str = "shop.Order") -> list[tuple[Any, str | None]]:
    found = decoded_messages(pa.array(records, pa.binary()), DESCRIPTORS, name, writers)
    return [(row["value"], row["error"]) for row in found.to_pylist()]


def test_a_message_becomes_a_struct():
    order = Order(id=-7, note="", status=1, first={"sku": "é"}, lines=[{"sku": "a", "count": 2**64 - 1}, {}])
    order.tags["x"] = b"\xff"
    assert read(order.SerializeToString()) == [
        (
            {
                "id": -7,
                "note": "",
                "status": "PAID",
                "lines": [{"sku": "a", "count": Decimal(2**64 - 1)}, {"sku": "", "count": Decimal(0)}],
                "first": {"sku": "é", "count": Decimal(0)},
                "tags": [("x", b"\xff")],
            },
            None,
        )
    ]


def test_a_field_without_presence_is_never_null_and_a_tombstone_has_no_value():
    assert read(b"", None) == [(NOTHING, None), (None, None)]


def test_a_number_that_an_enum_does_not_name_is_its_digits():
    assert read(Order(status=9).SerializeToString())[0][0]["status"] == "9"


def test_a_field_that_the_type_does_not_have_is_ignored():
    assert read(b"\x98\x06\x01") == [(NOTHING, None)]


@pytest.mark.parametrize("record", [b"\x08", b"\x0a\x05ab", b"\xff", b"\x12\x02\xff\xfe"])
def test_a_record_that_is_no_message_is_an_error(record):
    assert read(record) == [(None, NO_MESSAGE)]


def test_a_required_field_that_lacks_and_an_invalid_text_are_errors():
    """Protobuf's older syntax has both."""
    order = message("Order", field("name", "string"), field("id", "int64"))
    order.field[1].label = order.field[1].LABEL_REQUIRED
    file = file_of(order)
    file.syntax = "proto2"
    records = pa.array([b"", b"\x0a\x02\xff\xfe\x10\x01", b"\x10\x01"], pa.binary())
    found = decoded_messages(records, set_of(file), "shop.Order", None).to_pylist()
    assert [row["error"] for row in found] == [NO_MESSAGE, "has a text that is no UTF-8", None]
    assert found[2]["value"] == {"name": None, "id": 1}


@given(st.binary(max_size=30))
def test_bytes_are_a_message_or_an_error(record):
    ((value, error),) = read(record)
    assert (value is None) != (error is None)
    if value is not None:
        # What was read is what the library's own text of the message says.
        assert value["id"] == Order.FromString(record).id


# --------------------------------------------------------------------------------------------------------- framing


def test_a_framed_message_is_found_behind_its_schema():
    body = Order(id=5).SerializeToString()
    found = read(framed(7, body), framed(7, body, 0), writers=PLACES)
    assert [value["id"] for value, _ in found] == [5, 5]


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (framed(8, b""), "schema 8 is unknown"),
        (framed(7, b"", 1), "is a message of type shop.Line"),
        (framed(7, b"", 1, 0), "is a message of type shop.Line.Inner"),
        (framed(7, b"", 300), NO_MESSAGE),
        (b"\x01" + framed(7, b"")[1:], "is not framed by a schema registry"),
        (b"\0\0\0", "is not framed by a schema registry"),
        (b"\0\0\0\0\x07\x80", NO_MESSAGE),
        (framed(7, b"\xff"), NO_MESSAGE),
    ],
)
def test_a_record_in_another_framing_or_of_another_type_is_an_error(record, error):
    assert read(record, writers=PLACES) == [(None, error)]


def test_a_message_that_is_not_the_first_one_of_its_file():
    body = class_of(DESCRIPTORS, "shop.Line")(sku="a").SerializeToString()
    ((value, _),) = read(framed(7, body, 1), writers=PLACES, name="shop.Line")
    assert value == {"sku": "a", "count": Decimal(0)}
