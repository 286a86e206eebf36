"""An answer that the client has already is not made again."""

from __future__ import annotations

import json

import pytest
from fastapi import Request
from pydantic import BaseModel

from airflow_backfill_provider.plugin.caching import unless_known


class Answer(BaseModel):
    rows: int


def request(known: str | None = None) -> Request:
    headers = [] if known is None else [(b"if-none-match", known.encode())]
    return Request({"type": "http", "headers": headers})


def answered(version, known: str | None = None):
    return unless_known(request(known), version, lambda: Answer(rows=7))


def test_a_first_request_is_answered_with_a_tag():
    answer = answered(["v", 1])
    assert (answer.status_code, json.loads(bytes(answer.body))) == (200, {"rows": 7})
    assert answer.headers["etag"].startswith('W/"')
    assert answer.headers["cache-control"] == "private, no-cache"


@pytest.mark.parametrize("among", ["{}", '"other", {}', "{}, *"])
def test_what_the_client_has_is_not_made_again(among):
    tag = answered(["v", 1]).headers["etag"]

    def make() -> Answer:
        raise AssertionError

    answer = unless_known(request(among.format(tag)), ["v", 1], make)
    assert (answer.status_code, bytes(answer.body)) == (304, b"")
    assert answer.headers["etag"] == tag


@pytest.mark.parametrize("other", [["v", 2], ["v", None], ["v"], [["v", 1]]])
def test_another_version_is_another_answer(other):
    tag = answered(["v", 1]).headers["etag"]
    answer = answered(other, tag)
    assert answer.status_code == 200
    assert answer.headers["etag"] != tag
