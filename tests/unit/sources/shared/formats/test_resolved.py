"""What a job pins of a format."""

from __future__ import annotations

import json
import os

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats import resolved as resolved_formats
from airflow_backfill_provider.sources.shared.formats.definition import (
    AvroFormat,
    JsonFormat,
    ProtobufFormat,
    RawFormat,
    TextFormat,
)
from airflow_backfill_provider.sources.shared.formats.registry import RegisteredSchema
from airflow_backfill_provider.sources.shared.formats.resolved import (
    ResolvedAvro,
    ResolvedFormat,
    ResolvedProtobuf,
    from_json,
    resolved,
    to_json,
)
from tests.protobuf_schemas import field, file_of, message, set_of

SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
STRUCT = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'


@pytest.fixture
def schema_file(tmp_path):
    """A file with a schema."""
    file = tmp_path / "order.avsc"
    file.write_text(SCHEMA, encoding="utf-8")
    return file


class Registry:
    """A registry whose subjects all have one schema."""

    def __init__(self, kind="AVRO"):
        self.kind = kind
        self.asked = []

    def latest(self, subject):
        self.asked.append(subject)
        return RegisteredSchema(7, self.kind, SCHEMA)


def assert_pinned(found: ResolvedFormat) -> None:
    assert from_json(to_json(found)) == found


@pytest.mark.parametrize(
    ("record_format", "delta_type"),
    [(RawFormat(), "binary"), (TextFormat(), "string"), (JsonFormat(schema_="id BIGINT"), STRUCT)],
)
def test_a_format_has_the_type_of_its_column(record_format, delta_type):
    found = resolved(record_format)
    assert found.delta_type == delta_type
    assert_pinned(found)


def test_a_file_is_not_read_again(schema_file):
    found = resolved(AvroFormat(schema_file=str(schema_file)))
    schema_file.unlink()
    assert found == ResolvedAvro(delta_type=STRUCT, reader_schema=SCHEMA, registry=None)
    assert_pinned(found)


@pytest.mark.parametrize(("subject", "asked"), [(None, "orders-value"), ("shop.Order", "shop.Order")])
def test_a_registry_is_asked_for_the_latest_version_of_a_subject(subject, asked):
    registry = Registry()
    found = resolved(AvroFormat(registry="schemas", subject=subject), "orders-value", lambda _: registry)
    assert registry.asked == [asked]
    assert found == ResolvedAvro(delta_type=STRUCT, reader_schema=SCHEMA, registry="schemas")
    assert_pinned(found)


def test_a_registry_is_not_asked_for_the_schema_that_a_file_has(schema_file):
    registry = Registry()
    found = resolved(AvroFormat(registry="schemas", schema_file=str(schema_file)), "orders-value", lambda _: registry)
    assert registry.asked == []
    assert found == ResolvedAvro(delta_type=STRUCT, reader_schema=SCHEMA, registry="schemas")


def test_a_subject_is_needed_where_there_is_no_topic():
    with pytest.raises(InvalidJobError, match="needs subject"):
        resolved(AvroFormat(registry="schemas"), open_registry=lambda _: Registry())


def test_a_subject_of_another_language_is_refused():
    with pytest.raises(InvalidJobError, match="subject orders-value is a schema of PROTOBUF, but the format is avro"):
        resolved(AvroFormat(registry="schemas"), "orders-value", lambda _: Registry("PROTOBUF"))


def test_a_file_that_cannot_be_used_is_named(schema_file):
    schema_file.write_bytes(b"\xff")
    with pytest.raises(InvalidJobError, match=r"schema_file .*order.avsc cannot be read \(it is no text in UTF-8\)"):
        resolved(AvroFormat(schema_file=str(schema_file)))
    schema_file.unlink()
    with pytest.raises(InvalidJobError, match=r"order.avsc cannot be read \(No such file or directory\)"):
        resolved(AvroFormat(schema_file=str(schema_file)))


def test_a_set_of_descriptors_is_pinned(tmp_path):
    descriptors = set_of(file_of(message("Order", field("id", "int64"))))
    file = tmp_path / "shop.desc"
    file.write_bytes(descriptors)
    found = resolved(ProtobufFormat(descriptor_file=str(file), message="shop.Order", registry="schemas"))
    file.unlink()
    assert isinstance(found, ResolvedProtobuf)
    assert (found.delta_type, found.descriptors, found.registry) == (STRUCT, descriptors, "schemas")
    assert_pinned(found)


def test_a_file_that_is_no_set_of_descriptors_is_refused(tmp_path):
    with pytest.raises(InvalidJobError, match="descriptor_file .* cannot be read"):
        resolved(ProtobufFormat(descriptor_file=str(tmp_path / "none"), message="shop.Order"))
    (tmp_path / "text").write_text("message Order {}", encoding="utf-8")
    with pytest.raises(InvalidJobError, match="no whole set of descriptors"):
        resolved(ProtobufFormat(descriptor_file=str(tmp_path / "text"), message="shop.Order"))


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "long"])
def test_a_file_without_an_end_is_not_read(tmp_path, monkeypatch, place):
    monkeypatch.setattr(resolved_formats, "LONGEST_FILE", 1 << 20)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(InvalidJobError, match=f"schema_file .*{place} is no file, or longer than 1 MiB"):
        resolved(AvroFormat(schema_file=str(tmp_path / place)))
