"""What the API answers with where something is refused."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from fastapi import HTTPException, Request

from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError, StorageUnavailableError
from airflow_backfill_provider.plugin.access import require_json
from airflow_backfill_provider.plugin.app import _refused


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidJobError("parallelism: 0 is no number"), 422),
        (StorageUnavailableError("the lake cannot be reached"), 503),
        (JobCancelledError("job orders was cancelled"), 409),
    ],
)
def test_an_error_is_answered_with_its_own_words_and_a_code_that_says_whose_it_is(error, code):
    """The pages ask again after 503 alone."""
    answer = _refused(cast("Request", None), error)
    assert (answer.status_code, json.loads(bytes(answer.body))) == (code, {"detail": str(error)})


def request(content_type: str | None) -> Request:
    headers = [] if content_type is None else [(b"content-type", content_type.encode())]
    scope: dict[str, Any] = {"type": "http", "headers": headers}
    return Request(scope)


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON ; charset=utf-8"])
def test_json_may_have_parameters(content_type):
    require_json(request(content_type))


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "text/plain;application/json", "application/jsonp"])
def test_whatever_a_form_of_another_site_could_send_is_refused(content_type):
    with pytest.raises(HTTPException) as refused:
        require_json(request(content_type))
    assert refused.value.status_code == 415
