"""The columns of a topic's records."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.sources.kafka import columns as kafka_columns
from airflow_backfill_provider.sources.kafka.columns import NAMES, RecordFormats, RecordTypes
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream


def types_of(pinned=None, **formats):
    return RecordTypes(RecordFormats(KafkaUpstream(connection="events", topic="orders", **formats), pinned or {}))


def test_a_record_has_the_documented_columns():
    found = types_of()
    assert tuple(found) == NAMES == ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
    assert len(found) == len(NAMES)
    headers = json.loads(found["headers"])
    assert {name: kind for name, kind in found.items() if name != "headers"} == {
        "key": "binary",
        "value": "binary",
        "topic": "string",
        "partition": "integer",
        "offset": "long",
        "timestamp": "timestamp",
    }
    assert [(field["name"], field["type"]) for field in headers["elementType"]["fields"]] == [
        ("key", "string"),
        ("value", "binary"),
    ]


def test_columns_that_there_are_not_are_missing():
    found = types_of()
    assert "order_id" not in found
    with pytest.raises(KeyError):
        found["order_id"]


def test_keys_and_values_have_the_types_of_their_formats():
    found = types_of(value={"format": "json", "schema": "id BIGINT"}, record_key={"format": "text"})
    assert [field["name"] for field in json.loads(found["value"])["fields"]] == ["id"]
    assert found["key"] == "string"


def test_what_a_job_pinned_is_not_resolved_again(monkeypatch):
    """I2: a registry's subject may have another version by now."""
    upstream = {"value": {"format": "json", "schema": "id BIGINT"}}
    formats = RecordFormats(KafkaUpstream(connection="events", topic="orders", **upstream), {})
    pinned, expected = formats.pinned, types_of(**upstream)["value"]

    def fail(*_):
        raise AssertionError("it is pinned")

    monkeypatch.setattr(kafka_columns, "resolved", fail)
    assert types_of(pinned, value={"format": "json", "schema": "other INT"})["value"] == expected
    assert types_of({})["offset"] == "long", "the other columns need no format"
