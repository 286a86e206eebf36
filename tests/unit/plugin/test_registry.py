"""Which jobs are the same to the pages: a change of one must not reach another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_backfill_provider.plugin.observer import JobObserver
from airflow_backfill_provider.plugin.registry import RegisteredJob
from tests.builders import job_fields


def registered(**changes) -> RegisteredJob:
    fields = {"name": "paid_orders", "definition": job_fields(), "backfill_conn_id": "here", "dag_ids": ("dag",)}
    return RegisteredJob(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"dag_ids": ("another", "dag")}, True),
        ({"definition": dict(reversed(job_fields().items()))}, True),
        ({"backfill_conn_id": "there"}, False),
        ({"definition": job_fields(state="/lake/elsewhere")}, False),
        ({"definition": job_fields(query="SELECT id FROM upstream")}, False),
    ],
)
def test_a_job_is_the_same_by_its_definition_and_its_connection(changes, same):
    """Two jobs of one name may have their control tables in different folders."""
    assert (registered(**changes).key == registered().key) is same


def test_each_of_two_jobs_of_one_definition_is_opened_through_its_own_connection(connection, tmp_path: Path):
    for conn_id in ("here", "there"):
        connection(conn_id, extra=json.dumps({"state_root": str(tmp_path / conn_id)}))
    observer = JobObserver()
    jobs = [registered(backfill_conn_id=conn_id) for conn_id in ("here", "there")]

    states = [observer.job(job).backfill.job.state for job in jobs]

    assert states == [f"{tmp_path}/{conn_id}/paid_orders" for conn_id in ("here", "there")]
    assert observer.job(jobs[0]) is observer.job(jobs[0])
