"""What is a job among the values that DAGs wrote into Airflow's database."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.assets import CONNECTION, DEFINITION
from airflow_backfill_provider.plugin.written_jobs import IDS_PER_QUERY, WrittenJob, in_batches, written_job
from tests.builders import job_fields

JOB = {DEFINITION: job_fields(), CONNECTION: "lake"}


@pytest.mark.parametrize("text", [json.dumps(JOB), json.dumps(json.dumps(JOB))])
def test_a_job_is_read_from_a_value_and_from_its_json_in_a_text(text):
    assert written_job(text) == WrittenJob("paid_orders", job_fields(), "lake")


@pytest.mark.parametrize("conn_id", [None, ""])
def test_a_value_may_name_no_connection(conn_id):
    assert written_job(json.dumps(JOB | {CONNECTION: conn_id})) == WrittenJob("paid_orders", job_fields(), "")


@pytest.mark.parametrize("name", ["", "Orders", "a b", "a" * 101, "x\n", 7, None, ["a"]])
def test_a_name_that_no_job_can_have_makes_no_job(name):
    assert written_job(json.dumps({DEFINITION: {"name": name}, CONNECTION: "lake"})) is None


def test_ids_come_in_lists_that_a_query_can_take():
    ids = range(2 * IDS_PER_QUERY + 1)
    assert [len(some) for some in in_batches(ids)] == [IDS_PER_QUERY, IDS_PER_QUERY, 1]
    assert list(in_batches(())) == []
