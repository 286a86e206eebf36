"""Which columns Debezium's events and the database have alike."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.sources.debezium.encodings import Encoding, encoding_of
from airflow_backfill_provider.sources.shared.postgresql.types import PostgresType

TEXTS = json.dumps({"type": "array", "elementType": "string", "containsNull": True})


def numeric(precision, scale):
    return PostgresType(name="numeric", modifier=(precision << 16 | scale) + 4)


@pytest.mark.parametrize(
    ("column", "event_type"),
    [
        (PostgresType(name="int2"), "short"),
        (PostgresType(name="int2"), "integer"),
        (PostgresType(name="int4"), "long"),
        (PostgresType(name="int8"), "long"),
        (PostgresType(name="text"), "string"),
        (PostgresType(name="bpchar"), "string"),
        (PostgresType(name="jsonb"), "string"),
        (PostgresType(name="uuid"), "string"),
        (PostgresType(name="shop.mood", kind="e"), "string"),
        (PostgresType(name="bool"), "boolean"),
        (PostgresType(name="float4"), "float"),
        (PostgresType(name="bytea"), "binary"),
        (PostgresType(name="date"), "date"),
        (PostgresType(name="timestamp"), "timestamp_ntz"),
        (PostgresType(name="timestamptz"), "timestamp"),
        (PostgresType(name="numeric"), "string"),
        (numeric(10, 2), "decimal(10,2)"),
        (numeric(10, 2), "decimal(12,3)"),
        (numeric(10, 2), "string"),
        (numeric(10, 2), "double"),
        (PostgresType(name="_text", element=PostgresType(name="text")), TEXTS),
    ],
    ids=str,
)
def test_values_that_convert_from_the_databases_text(column, event_type):
    assert encoding_of(column, event_type) is Encoding.ALIKE


@pytest.mark.parametrize(
    ("column", "event_type", "encoding"),
    [
        (PostgresType(name="date"), "integer", Encoding.DAYS),
        (PostgresType(name="timestamp"), "long", Encoding.MICROSECONDS),
        (PostgresType(name="timestamp", modifier=6), "long", Encoding.MICROSECONDS),
        (PostgresType(name="timestamp", modifier=4), "long", Encoding.MICROSECONDS),
        (PostgresType(name="timestamp", modifier=3), "long", Encoding.MILLISECONDS),
        (PostgresType(name="timestamp", modifier=0), "long", Encoding.MILLISECONDS),
        (PostgresType(name="timestamptz"), "string", Encoding.ISO_8601),
    ],
    ids=str,
)
def test_values_that_debezium_encodes(column, event_type, encoding):
    assert encoding_of(column, event_type) is encoding


@pytest.mark.parametrize(
    ("column", "event_type"),
    [
        (PostgresType(name="int8"), "integer"),
        (PostgresType(name="int8"), "string"),
        (PostgresType(name="text"), "binary"),
        (PostgresType(name="bytea"), "string"),
        (PostgresType(name="numeric"), "decimal(38,10)"),
        (numeric(10, 2), "decimal(10,1)"),
        (numeric(10, 2), "decimal(10,3)"),
        (numeric(10, 2), "float"),
        (PostgresType(name="timestamp"), "timestamp"),
        (PostgresType(name="timestamptz"), "timestamp_ntz"),
        (PostgresType(name="timestamptz"), "long"),
        (PostgresType(name="date"), "long"),
        (PostgresType(name="time"), "long"),
        (PostgresType(name="time"), "string"),
        (PostgresType(name="interval"), "string"),
        (PostgresType(name="bit"), "string"),
        (PostgresType(name="point"), "string"),
        (PostgresType(name="shop.mood", kind="c"), "string"),
        (PostgresType(name="_text", element=PostgresType(name="text")), "string"),
        (PostgresType(name="_int4", element=PostgresType(name="int4")), TEXTS),
    ],
    ids=str,
)
def test_any_other_encoding_is_not_known_to_be_exact(column, event_type):
    assert encoding_of(column, event_type) is None
