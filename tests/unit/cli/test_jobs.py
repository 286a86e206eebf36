"""The job that a command opens by its file, and the requester."""

from __future__ import annotations

import os
import socket

import pytest

from airflow_backfill_provider.applications.spark_settings import STORAGE_OPTIONS_VARIABLE
from airflow_backfill_provider.cli import jobs
from airflow_backfill_provider.core.errors import InvalidJobError, JobNotCreatedError, StorageOptionsError
from airflow_backfill_provider.core.job.requester import Requester
from tests.unit.cli.conftest import fails


def test_bad_storage_options(job, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, "[secret")
    result = job("plan")
    fails(result, STORAGE_OPTIONS_VARIABLE)
    assert "[secret" not in result.stderr


@pytest.mark.parametrize("options", ["[]", '"x"', "1", '{"a": {"b": "c"}}', '{"a": 1}', '{"a": null}'])
def test_storage_options_are_an_object_of_strings(job, monkeypatch, options):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, options)
    with pytest.raises(StorageOptionsError, match="is not a JSON object of strings"):
        jobs.open_job(job.file)


def test_storage_options_come_from_the_environment(job, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, '{"AWS_REGION": "here"}')
    assert jobs.open_job(job.file).storage_options == {"AWS_REGION": "here"}


def test_a_job_that_was_not_created_can_be_opened_but_not_changed(job):
    assert jobs.open_job(job.file).job.name == "small_orders"
    with pytest.raises(JobNotCreatedError, match=f"airflow-backfill create {job.file}"):
        jobs.created_job(job.file)


def test_an_edited_job_can_be_read_but_not_run(created):
    """The settings in force count."""
    created.write(query="SELECT order_id FROM upstream")
    backfill, settings = jobs.created_job(created.file)
    assert (backfill.job.query, settings.sequence) == ("SELECT order_id FROM upstream", 1)
    assert "amount" in settings.definition.query
    with pytest.raises(InvalidJobError, match="another query"):
        jobs.unchanged_job(created.file)
    created.write(query="SELECT order_id, amount FROM upstream")
    assert jobs.unchanged_job(created.file)[1] == settings


def test_the_requester_is_a_user_at_a_machine(monkeypatch):
    monkeypatch.setenv("LOGNAME", "vera")
    assert jobs.user() == f"vera@{socket.gethostname()}"
    assert jobs.requester() == Requester(user=jobs.user())


def test_a_user_without_a_name_is_a_number(monkeypatch):
    """A container may run under one."""

    def no_name() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(jobs.getpass, "getuser", no_name)
    assert jobs.user() == f"{os.getuid()}@{socket.gethostname()}"
