"""Formats as a job's definition has them: what is allowed, and what a refusal names."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from airflow_backfill_provider.sources.shared.formats.definition import DEFAULT_FORMAT, JsonFormat, RecordFormat

FORMATS = TypeAdapter(RecordFormat)

VALID = [
    {"format": "raw"},
    {"format": "text"},
    {"format": "json", "schema": "order_id BIGINT, amount DECIMAL(12,2)"},
    {"format": "avro", "schema_file": "/schemas/order.avsc", "registry": None, "subject": None},
    {"format": "avro", "schema_file": None, "registry": "schemas", "subject": "orders-value"},
    {"format": "avro", "schema_file": "/schemas/order.avsc", "registry": "schemas", "subject": None},
    {"format": "protobuf", "descriptor_file": "/schemas/shop.desc", "message": "shop.Order", "registry": None},
    {"format": "protobuf", "descriptor_file": "/schemas/shop.desc", "message": "shop.Order", "registry": "schemas"},
]


@pytest.mark.parametrize("fields", VALID)
def test_a_definition_is_written_as_it_is_read(fields):
    found = FORMATS.validate_python(fields)
    assert found.model_dump(mode="json") == fields
    assert FORMATS.validate_json(FORMATS.dump_json(found)) == found


def test_a_record_is_raw_unless_the_definition_says_otherwise():
    assert DEFAULT_FORMAT.format == "raw"


def test_the_schema_can_be_given_by_either_of_its_names():
    assert JsonFormat(schema="a INT") == JsonFormat(schema_="a INT")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"format": "xml"}, "'raw', 'text', 'json', 'avro', 'protobuf'"),
        ({"format": "protobuf", "message": "shop.Order"}, "descriptor_file"),
        ({"format": "protobuf", "descriptor_file": "x"}, "message"),
        ({"format": "raw", "schema": "a INT"}, "schema"),
        ({"format": "json"}, "schema"),
        ({"format": "json", "schema": ""}, "schema is empty"),
        ({"format": "json", "schema": "a MONEY"}, "column a has the type MONEY"),
        ({"format": "avro"}, "needs schema_file, .* or registry"),
        ({"format": "avro", "registry": ""}, "registry"),
        ({"format": "avro", "schema_file": "a.avsc", "subject": "s"}, "subject .* needs registry"),
        ({"format": "avro", "schema_file": "a", "registry": "r", "subject": "s"}, "subject and schema_file both"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(fields, says):
    with pytest.raises(ValidationError, match=says):
        FORMATS.validate_python(fields)


def test_a_definition_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        JsonFormat(schema="a INT").schema_ = "b INT"
