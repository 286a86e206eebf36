"""What records in Avro become on Spark: with one schema, or each with the schema that its id has in a registry."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.avro.functions import from_avro

from airflow_backfill_provider.sources.shared.formats.avro_types import avro_column_type
from airflow_backfill_provider.sources.shared.formats.avro_values import INEXACT, NO_AVRO
from airflow_backfill_provider.sources.shared.formats.column_types import parsed_type, type_text
from airflow_backfill_provider.sources.shared.formats.framing import NOT_FRAMED
from airflow_backfill_provider.sources.shared.formats.portable_values import INVALID_TEXT, NO_DATE
from airflow_backfill_provider.sources.shared.formats.resolved import ResolvedAvro
from airflow_backfill_provider.sources.shared.formats.spark import decoded, writer_ids
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


def record(*fields: tuple[str, Any], name: str = "Order", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": [{"name": of, "type": kind} for of, kind in fields]}


def pinned(schema: Any, registry: str | None = None) -> ResolvedAvro:
    text = json.dumps(schema)
    kind = type_text(avro_column_type(text, "schema_file"))
    return ResolvedAvro(delta_type=kind, reader_schema=text, registry=registry)


def frame_of(spark: SparkSession, records: Sequence[bytes | None]) -> DataFrame:
    return spark.createDataFrame([*enumerate(records)], "number INT, `the record` BINARY")


def read(
    spark: SparkSession, avro: ResolvedAvro, records: Sequence[bytes | None], writers: Mapping[int, str] | None = None
) -> list[tuple[Any, str | None]]:
    """Return the value and the error of each record."""
    result = decoded("the record", avro, writers).alias("result")
    found = frame_of(spark, records).select("number", result).orderBy("number").collect()
    return [(row["result"]["value"], row["result"]["error"]) for row in found]


def length(number: int) -> bytes:
    """Return a number that is not negative as Avro writes it."""
    rest, written = number << 1, []
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def framed(schema_id: int, body: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + body


ORDER = record(("id", ["null", "int"]), ("status", ["null", "string"]))


def test_a_record_is_read_with_its_schema(spark):
    assert read(spark, pinned(ORDER), [b"\x02\x02\x02\x04hi", b"\x00\x00", None]) == [
        ((1, "hi"), None),
        ((None, None), None),
        (None, None),
    ]


def test_a_record_ends_where_its_schema_ends(spark):
    """Spark alone would ignore the rest, and make nulls of what is missing."""
    whole = b"\x02\x02\x02\x04hi"
    broken = [
        *(whole[:end] for end in range(len(whole))),
        *(whole + rest for rest in (b"\0", b"\1", b"\0\0", b"\1\1", b"\0\1", b"\1\0", b"\2", whole)),
        *(b"\x04", b"\x00", b"\x00\x00\x00", b"\x00\x00\x01"),
    ]
    assert read(spark, pinned(ORDER), broken) == [(None, NO_AVRO)] * len(broken)


@pytest.mark.parametrize("claimed", [10**8, 2**31 - 9, 2**31, 2**40])
def test_a_length_that_a_damaged_record_claims_is_not_allocated(spark, claimed):
    damaged = b"\x02\x02\x02" + length(claimed) + b"hi"
    assert read(spark, pinned(ORDER), [damaged]) == [(None, NO_AVRO)]
    assert read(spark, pinned({"type": "array", "items": "long"}), [length(claimed) + b"hi"]) == [(None, NO_AVRO)]


def test_a_value_need_not_be_a_record(spark):
    assert read(spark, pinned("string"), [b"\x04hi", b"\x04h", b"hi"]) == [
        ("hi", None),
        (None, NO_AVRO),
        (None, NO_AVRO),
    ]
    kind = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
    assert read(spark, pinned(kind), [b"\x02", b"\x04", b""]) == [("B", None), (None, NO_AVRO), (None, NO_AVRO)]
    assert read(spark, pinned({"type": "map", "values": "int"}), [b"\x02\x02a\x02\x00"]) == [({"a": 1}, None)]


def test_logical_types_have_their_values(spark):
    schema = record(
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
    )
    written = b"\x04\x01\x00" + length(19723) + length(1_704_067_200_001)
    too_long = b"\x06\x7f\xff\xff" + length(19723) + length(1_704_067_200_001)
    value = (Decimal("2.56"), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 1000))
    assert read(spark, pinned(schema), [written, too_long]) == [(value, None), (None, NO_AVRO)]


@pytest.mark.parametrize(
    ("schema", "before", "after"),
    [
        ("string", b"", b""),
        (["null", "string"], b"\x02", b""),
        ({"type": "array", "items": "string"}, b"\x02", b"\x00"),
        ({"type": "map", "values": "int"}, b"\x02", b"\x00\x00"),
        ({"type": "map", "values": "string"}, b"\x02\x00", b"\x00"),
        (record(("a", "int"), ("b", record(("c", "string"), name="Inner"))), b"\x00", b""),
    ],
)
def test_texts_are_valid_utf8(spark, schema, before, after):
    records = [before + b"\x04" + text + after for text in ("ä".encode(), b"\xff\xff")]
    (_, none), (value, error) = read(spark, pinned(schema), records)
    assert (none, value, error) == (None, None, INVALID_TEXT)


SCHEMAS = [
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    *({"type": "int", "logicalType": name} for name in ("date", "time-millis")),
    *(
        {"type": "long", "logicalType": name}
        for name in (
            "timestamp-millis",
            "timestamp-micros",
            "timestamp-nanos",
            "local-timestamp-millis",
            "local-timestamp-micros",
            "local-timestamp-nanos",
        )
    ),
    *({"type": "string", "logicalType": "uuid"}, {"type": "bytes", "logicalType": "big-decimal"}),
    {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9},
    {"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"},
    {"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"},
    *(["null", "int"], ["int", "long"], ["double", "null", "float"], ["string"]),
    record(
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A"]}),
        ("again", ["null", "Kind"]),
        ("line", record(("kinds", {"type": "array", "items": "shop.Kind"}), name="Line", namespace="lines")),
        ("lines", {"type": "map", "values": ["null", "lines.Line"]}),
        name="shop.Order",
    ),
]


def test_the_types_of_columns_are_sparks(spark):
    columns = [
        from_avro(F.lit(None).cast("binary"), json.dumps(schema)).alias(str(number))
        for number, schema in enumerate(SCHEMAS)
    ]
    found = json.loads(spark.range(0).select(*columns).schema.json())["fields"]
    ours = [avro_column_type(json.dumps(schema), "schema_file") for schema in SCHEMAS]
    assert ours == [_nullable(field["type"]) for field in found]


def test_the_value_has_the_type_that_was_resolved(spark):
    avro = pinned(SCHEMAS[-1])
    result = frame_of(spark, []).select(decoded("the record", avro).alias("result")).schema["result"]
    assert json.loads(result.dataType["value"].dataType.json()) == parsed_type(avro.delta_type)


def _nullable(kind: Any) -> Any:
    """Return a type in which everything may be null."""
    if isinstance(kind, list):
        return [*map(_nullable, kind)]
    if not isinstance(kind, dict):
        return kind
    flags = {"nullable": True, "containsNull": True, "valueContainsNull": True, "metadata": {}}
    return {name: flags.get(name, _nullable(part)) for name, part in kind.items()}


# --- with a registry ----------------------------------------------------------------------------------------------

NEWER = {
    **record(name="Order"),
    "fields": [
        {"name": "status", "type": ["null", "string"]},
        {"name": "amount", "type": "long", "default": 7},
        {"name": "id", "type": ["null", "long"]},
    ],
}
WRITERS = {1: json.dumps(ORDER), 258: json.dumps(NEWER), 5: json.dumps(record(("status", "int")))}


def test_each_record_is_read_with_the_schema_that_it_was_written_with(spark):
    records = [framed(1, b"\x02\x02\x02\x04hi"), framed(258, b"\x02\x04hi\x04\x00"), None]
    assert read(spark, pinned(NEWER, "schemas"), records, WRITERS) == [
        (("hi", 7, 1), None),
        (("hi", 2, None), None),
        (None, None),
    ]


def test_a_record_of_a_registry_has_an_id_that_is_known(spark):
    cases = {
        b"": NOT_FRAMED,
        b"\0\0\0\1": NOT_FRAMED,
        b"\1" + framed(1, b"\0\0")[1:]: NOT_FRAMED,
        framed(3, b"\0\0"): "schema 3 is unknown",
        framed(2**32 - 1, b""): "schema 4294967295 is unknown",
        framed(1, b""): NO_AVRO,
        framed(258, b"\x02\x04hi\x04\x00\x00"): NO_AVRO,
        framed(5, b"\x02"): NO_AVRO,  # it cannot be read as the reader's schema
    }
    found = read(spark, pinned(NEWER, "schemas"), [*cases], WRITERS)
    assert found == [(None, error) for error in cases.values()]


def test_the_ids_of_records_are_found(spark):
    records = [framed(1, b"x"), framed(1, b""), framed(2**32 - 1, b""), b"\0\0\0\2", b"\2\0\0\0\3", None]
    assert writer_ids(frame_of(spark, records), "the record") == {1, 2**32 - 1}


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    rest, written = (value << 1) ^ (value >> 63), []
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def unscaled(value: int, size: int) -> bytes:
    """Return a decimal's digits as Avro writes them."""
    return length(size) + value.to_bytes(size, "big", signed=True)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
LAST_MICROSECOND = 253_402_300_799_999_999
EXACT = Context(prec=38)


def test_a_value_is_never_read_as_another_one(spark):
    """I6: Avro itself promotes numbers, cuts decimals and takes one unit for another."""
    fields = {
        "promoted": ("long", "double", number(2**53 + 1), INEXACT),
        "promoted_exactly": ("long", "double", number(2**53 - 1), None),
        "single": ("int", "float", number(2**24 + 1), INEXACT),
        "narrowed": ("long", "int", number(70_000), NO_AVRO),
        "shortened": ("double", "float", b"\0" * 8, NO_AVRO),
        "cut": (decimal(10, 2), decimal(10, 2), unscaled(2**64 + 500, 9), NO_AVRO),
        "too_long": (decimal(5, 2), decimal(5, 2), unscaled(-1_000_000, 4), NO_AVRO),
        "cut_below_19_digits": (decimal(5, 2), decimal(5, 2), unscaled(-(10**19) + 1, 9), NO_AVRO),
        "fits": (decimal(5, 2), decimal(5, 2), unscaled(-99_999, 3), None),
        "fewer_digits": (decimal(10, 2), decimal(5, 2), unscaled(1_234_567, 4), NO_AVRO),
        "rescaled": (decimal(10, 2), decimal(10, 4), unscaled(12_345, 3), "digits behind the point"),
        "unit": (MILLIS, MICROS, number(1_767_225_600_000), "milliseconds"),
        "days": (DATE, MICROS, number(20_000), "days"),
    }
    writers = {number: json.dumps(record(("a", one[0]))) for number, one in enumerate(fields.values())}
    for index, (name, (_, reader, body, error)) in enumerate(fields.items()):
        ((_, found),) = read(spark, pinned(record(("a", reader)), "registry"), [framed(index, body)], writers)
        assert (found is None) == (error is None), name
        assert error is None or error in str(found), name


@pytest.mark.parametrize("digits", [35, *map(exhaustive, (18, 19, 34, 38))])
def test_a_decimal_keeps_every_digit(spark, digits):
    """I6: Spark rounds the negative and the absolute value of a decimal with more than 34 digits."""
    fixed = {"type": "fixed", "name": "Sixteen", "size": 16, "logicalType": "decimal"}
    most = 10**digits - 1
    values = (most, -most, most // 9, -(most // 9))
    for kind in (fixed | {"precision": digits, "scale": 2}, decimal(digits, 0), decimal(digits, digits)):
        size = b"" if kind["type"] == "fixed" else length(16)
        bodies = [size + value.to_bytes(16, "big", signed=True) for value in values]
        found = read(spark, pinned(record(("a", kind))), bodies)
        assert [value["a"] for value, _ in found] == [EXACT.scaleb(Decimal(value), -kind["scale"]) for value in values]


@pytest.mark.parametrize("digits", [19, *map(exhaustive, (5, 18, 34, 37))])
def test_a_decimal_with_more_digits_than_its_schema_has_is_unreadable(spark, digits):
    """I6: it is neither cut nor rounded, however many digits it has."""
    longer = [sign * 10**count for count in (digits, 34, 35, 37) if count >= digits for sign in (1, -1)]
    avro = pinned(record(("a", decimal(digits, 2))))
    assert read(spark, avro, [unscaled(value, 16) for value in longer]) == [(None, NO_AVRO)] * len(longer)


def test_what_is_within_lists_maps_and_records_is_checked_too(spark):
    schema = {"type": "map", "values": {"type": "array", "items": record(("a", decimal(4, 2)), ("b", MICROS))}}
    wrong = unscaled(2**64 + 5, 9) + number(0), unscaled(5, 1) + number(LAST_MICROSECOND + 1)
    bodies = [b"\x02\x02k\x04" + unscaled(5, 1) + number(0) + one + b"\0\0" for one in wrong]
    assert read(spark, pinned(schema), bodies) == [(None, NO_AVRO), (None, NO_DATE)]


@pytest.mark.parametrize(
    ("schema", "first", "last"),
    [
        (MICROS, -62_135_596_800_000_000, LAST_MICROSECOND),
        (MILLIS, -62_135_596_800_000, LAST_MICROSECOND // 1000),
        (LOCAL, -62_135_596_800_000_000, LAST_MICROSECOND),
        (DATE, -719_162, 2_932_896),
    ],
)
def test_times_outside_the_calendar_are_errors(spark, schema, first, last):
    """Other programs cannot open a table with them, this package's own reader of logs among them."""
    records = [number(value) for value in (first, last, first - 1, last + 1)]
    result = decoded("the record", pinned(schema)).getField("error").alias("error")
    found = frame_of(spark, records).select("number", result).orderBy("number").collect()
    assert [row["error"] for row in found] == [None, None, NO_DATE, NO_DATE]
