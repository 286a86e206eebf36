"""Where two schemas of Avro may give a value two meanings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_backfill_provider.sources.shared.formats.avro_agreement import Agreement, agreement, with_more_digits
from airflow_backfill_provider.sources.shared.formats.parts import ELEMENTS, VALUES


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int, **more: Any) -> dict[str, Any]:
    return logical("bytes", "decimal", precision=precision, scale=scale, **more)


def record(name: str = "Order", **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": of, "type": kind} for of, kind in fields.items()]}


def compared(writer: Any, reader: Any) -> Agreement:
    return agreement(json.dumps(writer), json.dumps(reader))


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (MILLIS, MICROS),
        (MICROS, MILLIS),
        (logical("long", "timestamp-nanos"), MICROS),
        (logical("long", "local-timestamp-millis"), logical("long", "local-timestamp-micros")),
        (logical("int", "date"), MILLIS),
        (logical("int", "time-millis"), logical("int", "date")),
        (["null", MILLIS], MICROS),
        (decimal(10, 2), decimal(10, 4)),
        (decimal(10, 2), ["null", decimal(10, 0)]),
    ],
)
@pytest.mark.parametrize(
    "within",
    [
        lambda kind: kind,
        lambda kind: record(at=kind),
        lambda kind: {"type": "array", "items": kind},
        lambda kind: {"type": "map", "values": ["null", record(at=kind)]},
    ],
)
def test_other_units_and_scales_are_a_conflict(writer, reader, within):
    assert compared(within(writer), within(reader)).conflict


def test_a_conflict_says_where_it_is():
    order = compared(record(line=record("Line", at=MILLIS)), record(line=record("Line", at=MICROS)))
    assert order.conflict == (
        "was written with field line.at in milliseconds, which the schema to read with takes for microseconds"
    )


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (MILLIS, MILLIS),
        (MILLIS, "long"),
        ("long", MILLIS),
        (logical("long", "local-timestamp-millis"), MILLIS),
        ("string", "bytes"),
        ("int", "long"),
        ("int", "double"),
        ("float", "double"),
        (decimal(30, 2), decimal(20, 2)),
        (record(at=MILLIS, old="int"), record(at=MILLIS, new=["null", "string"])),
    ],
)
def test_other_differences_are_avros_own(writer, reader):
    assert compared(writer, reader) == Agreement()


@pytest.mark.parametrize(
    ("writer", "reader", "limit"),
    [
        ("long", "double", f"{2**53}D"),
        ("long", "float", f"{2**24}D"),
        ("int", "float", f"{2**24}D"),
        (["null", "int", "long"], ["null", "double"], f"{2**53}D"),
    ],
)
def test_whole_numbers_that_may_lose_digits_have_a_limit(writer, reader, limit):
    assert compared(writer, reader) == Agreement(promoted={(): limit})
    nested = (record(all={"type": "array", "items": {"type": "map", "values": kind}}) for kind in (writer, reader))
    assert compared(*nested) == Agreement(promoted={("all", ELEMENTS, VALUES): limit})


@pytest.mark.parametrize(("precision", "scale", "limit"), [(10, 2, 10**8), (18, 0, 10**18), (4, 4, 1)])
def test_decimals_that_spark_would_cut_have_a_limit(precision, scale, limit):
    kind = decimal(precision, scale)
    assert compared(kind, kind) == Agreement(digits={(): f"{limit}BD"})
    assert compared(record(all=["null", kind]), record(all=kind)) == Agreement(digits={("all",): f"{limit}BD"})


def test_names_stand_for_what_they_name():
    """In a namespace, by a full name, and under an alias."""
    price = {"type": "fixed", "name": "Price", "size": 9, "logicalType": "decimal", "precision": 8, "scale": 2}
    schema = record("shop.Order", price=price, other="Price", full=["null", "shop.Price"], again={"type": "Price"})
    names = ("price", "other", "full", "again")
    assert compared(schema, schema).digits == {(name,): "1000000BD" for name in names}
    renamed = {**record(created=MICROS), "fields": [{"name": "created", "aliases": ["at"], "type": MICROS}]}
    assert compared(record(at=MILLIS), renamed).conflict


def test_what_only_the_writer_has_may_contain_itself():
    node = record("Node", id="long", next=["null", "Node"])
    assert compared(node, record("Node", id="double")).promoted == {("id",): f"{2**53}D"}


def test_decimals_of_few_digits_are_read_with_so_many_that_spark_cuts_none():
    short = {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 2}
    before = record(a=["null", decimal(10, 2)], b=decimal(20, 2), c=short, d={"type": "array", "items": decimal(3, 0)})
    after = record(a=["null", decimal(19, 2)], b=decimal(20, 2), c=short, d={"type": "array", "items": decimal(19, 0)})
    assert json.loads(with_more_digits(json.dumps(before))) == after
