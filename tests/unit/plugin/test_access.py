"""Who may use the API, and which requests are refused."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException, Request
from pydantic import TypeAdapter, ValidationError

from airflow_backfill_provider.plugin.access import DagId, JobName, require_json


def request(content_type: str | None) -> Request:
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    scope: dict[str, Any] = {"type": "http", "headers": headers}
    return Request(scope)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_may_have_parameters(content_type):
    require_json(request(content_type))


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "text/plain;application/json", "application/jsonp"])
def test_a_request_that_a_form_of_another_site_could_send_is_refused(content_type):
    with pytest.raises(HTTPException) as refused:
        require_json(request(content_type))
    assert refused.value.status_code == 415


@pytest.mark.parametrize("dag_id", ["orders", "a.b-c_1", "ä", "x" * 250])
def test_any_name_of_a_dag_that_airflow_allows_is_accepted(dag_id):
    assert TypeAdapter(DagId).validate_python(dag_id) == dag_id


@pytest.mark.parametrize("dag_id", ["", "a/b", "a b", "a?b", "a\nb", "a\x00b", "a:b", "<b>", "x" * 251])
def test_any_other_name_of_a_dag_is_refused(dag_id):
    with pytest.raises(ValidationError):
        TypeAdapter(DagId).validate_python(dag_id)


@pytest.mark.parametrize(("name", "is_one"), [("paid_orders_2", True), ("Paid", False), ("a-b", False), ("ä", False)])
def test_a_job_has_the_name_that_its_definition_allows(name, is_one):
    if is_one:
        assert TypeAdapter(JobName).validate_python(name) == name
        return
    with pytest.raises(ValidationError):
        TypeAdapter(JobName).validate_python(name)
