"""A topic as a job's upstream: its definition."""

from __future__ import annotations

import json

import pytest
import yaml

from airflow_backfill_provider.core import kinds
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.sources import kafka
from airflow_backfill_provider.sources.delta.definition import DeltaUpstream
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream, LostRecords
from airflow_backfill_provider.sources.shared.formats.definition import AvroFormat
from airflow_backfill_provider.sources.shared.unreadable_records import UnreadableRecords
from airflow_backfill_provider.sources.split_offsets import offset_of
from tests.builders import job_of

QUERY = "SELECT partition, offset, CAST(value AS STRING) AS value FROM upstream"


def job(**changes):
    upstream = {"connection": "events", "topic": "orders", **changes}
    return job_of(upstream={"kafka": upstream}, query=QUERY)


def test_a_minimal_upstream_gets_the_documented_defaults():
    found = job().upstream
    assert found == KafkaUpstream(
        connection="events",
        topic="orders",
        value={"format": "raw"},
        record_key={"format": "raw"},
        unreadable_records=UnreadableRecords.FAIL,
        lost_records=LostRecords.FAIL,
        key=("partition", "offset"),
        distribution_key=("partition",),
    )
    assert (found.location, found.watched, found.folders) == ("events: orders", "events: orders", {})
    assert found.connection_ids == ("events",)
    assert not found.lists_unreadable


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"topic": "a.b-c_d", "connection": "my events"},
        {"lost_records": "skip"},
        {"unreadable_records": "dead_letter", "value": {"format": "json", "schema": "id BIGINT"}},
        {"record_key": {"format": "text"}},
    ],
    ids=str,
)
def test_a_job_is_read_back_as_it_was_written(change, tmp_path):
    made = job(**change)
    written = made.model_dump(mode="json")
    assert BackfillJob(**json.loads(json.dumps(written))) == made
    assert BackfillJob(**json.loads(made.model_dump_json())) == made
    assert list(written["upstream"]) == ["kafka"]
    assert BackfillJob(**written).definition() == made.definition()
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    assert BackfillJob.from_yaml(file) == made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"group": "mine"}, "upstream.kafka.group: unknown field; allowed are connection, topic, "),
        ({"path": "/lake/orders"}, "upstream.kafka.path: unknown field; allowed are connection, topic, "),
        ({"password": "hunter2"}, "upstream.kafka.password: unknown field; allowed are connection, topic, "),
        ({"connection": ""}, "upstream.kafka.connection: String should have at least 1 character"),
        ({"topic": ""}, "upstream.kafka.topic: String should have at least 1 character"),
        ({"topic": 7}, "upstream.kafka.topic: Input should be a valid string"),
        ({"lost_records": "ignore"}, "upstream.kafka.lost_records: Input should be 'fail' or 'skip'"),
        ({"unreadable_records": "skip"}, "upstream.kafka.unreadable_records: Input should be 'fail' or 'dead_letter'"),
        ({"key": ["id"]}, "key: a record is identified by its partition and its offset, "),
        ({"key": ["offset", "partition"]}, "leave key out"),
        ({"key": ["partition", {"column": "offset", "descending": True}]}, "leave key out"),
        ({"distribution_key": ["offset"]}, "distributed by its partition; leave distribution_key out"),
        ({"distribution_key": ["partition", "offset"]}, "leave distribution_key out"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named_with_what_is_allowed(change, said):
    with pytest.raises(InvalidJobError) as refused:
        job(**change)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("field", ["connection", "topic"])
def test_a_required_field_that_is_missing_is_named(field):
    fields = {"connection": "events", "topic": "orders"}
    del fields[field]
    with pytest.raises(InvalidJobError, match=rf"^upstream\.kafka\.{field}: is required"):
        job_of(upstream={"kafka": fields}, query=QUERY)


def test_registries_of_schemas_are_connections_too_and_each_is_named_once():
    registered = AvroFormat(format="avro", registry="schemas")
    assert job(value=registered, record_key=registered).upstream.connection_ids == ("events", "schemas")
    assert job(value=AvroFormat(format="avro", registry="events")).upstream.connection_ids == ("events",)


def test_its_splits_are_its_partitions():
    assert job().upstream.split_ends(offset_of({0: 4, 1: 0})) == {0: 4, 1: 0}
    assert DeltaUpstream(path="/lake/orders", key=("id",)).split_ends(offset_of({0: 4})) is None


def test_the_kind_opens_its_own_definitions_without_asking_the_cluster():
    kind = kinds.SOURCES.named("kafka")
    source = kind.open(job().upstream)
    assert (source.location, source.topic.name, source.topic.cluster.connection_id) == (
        "events: orders",
        "orders",
        "events",
    )


def test_without_its_client_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setattr(kafka, "find_spec", lambda name: None)
    with pytest.raises(InvalidJobError, match=r"install airflow-backfill-provider\[kafka\]"):
        kafka.Kafka().open(job().upstream)
