"""The definition of a table of upserts in a job."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.sources.upserts.source import UpsertsSource
from tests.builders import job_of

FIELDS = {"path": "/lake/customer_events", "key": ["id"], "ordered_by": ["offset"]}


def upstream_of(**fields):
    return job_of(upstream={"upserts": {**FIELDS, **fields}}).upstream


def test_a_table_without_deletes_and_splits():
    upstream = upstream_of()
    assert upstream.location == "/lake/customer_events"
    assert upstream.folders == {"upstream.upserts.path": "/lake/customer_events"}
    assert (upstream.deleted, upstream.split) == (None, None)
    assert isinstance(open_source(upstream), UpsertsSource)


def test_a_definition_is_read_back_from_a_record():
    job = job_of(upstream={"upserts": {**FIELDS, "deleted": "is_deleted", "split": "partition"}})
    assert BackfillJob.model_validate(job.model_dump(mode="json")) == job


@pytest.mark.parametrize(
    "fields",
    [
        {"ordered_by": []},
        {"ordered_by": "offset"},
        {"ordered_by": ["offset", "offset"]},
        {"deleted": "offset"},
        {"deleted": "part", "split": "part"},
        {"deleted": ""},
        {"path": ""},
        {"topic": "customers"},
    ],
)
def test_wrong_fields_are_refused(fields):
    with pytest.raises(InvalidJobError):
        upstream_of(**fields)
