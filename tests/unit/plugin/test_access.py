"""Who may use the API, and which requests are refused."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import HTTPException, Request

from airflow_backfill_provider.plugin.access import require_json


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
