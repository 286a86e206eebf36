"""The definition of a table of Debezium's events in a job."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.sources import KINDS, open_source
from airflow_backfill_provider.sources.debezium.source import DebeziumSource
from tests.builders import job_of

SNAPSHOT = {"connection": "shop_db", "table": "public.orders"}


def upstream_of(**fields):
    return job_of(upstream={"debezium": {"path": "/lake/events", "key": ["id"], **fields}}).upstream


def test_the_events_alone():
    upstream = upstream_of()
    assert upstream.location == "/lake/events"
    assert upstream.folders == {"upstream.debezium.path": "/lake/events"}
    assert upstream.connection_ids == ()
    source = open_source(upstream)
    assert isinstance(source, DebeziumSource)
    assert source.present is None


def test_rows_of_a_database():
    upstream = upstream_of(snapshot=SNAPSHOT)
    assert upstream.connection_ids == ("shop_db",)
    assert upstream.snapshot.events_within == 300
    assert open_source(upstream).present is not None


def test_a_definition_is_read_back_from_a_record():
    job = job_of(upstream={"debezium": {"path": "/lake/events", "key": ["id"], "snapshot": SNAPSHOT}})
    assert BackfillJob.model_validate(job.model_dump(mode="json")) == job


@pytest.mark.parametrize(
    "fields",
    [{"snapshot": {**SNAPSHOT, "tabel": "x"}}, {"snapshot": {"connection": "c"}}, {"path": ""}, {"events": "x"}],
)
def test_wrong_fields_are_refused(fields):
    with pytest.raises(InvalidJobError):
        upstream_of(**fields)


def test_the_kind_is_registered():
    assert KINDS.named("debezium").name == "debezium"
