"""HTTP caching: an unchanged answer is not built again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import Request, Response, status
from pydantic import BaseModel

from airflow_backfill_provider.core.digest import digest


def unless_known(request: Request, version: Any, answer: Callable[[], BaseModel]) -> Response:
    """
    Answer a request, or return 304 if the client already has the answer.

    :param version: a JSON value that changes whenever the answer does.
    :param answer: builds the answer.
    """
    # Other users may get another answer at the same address.
    headers = {"ETag": f'W/"{digest(version)}"', "Cache-Control": "private, no-cache"}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(answer().model_dump_json(), media_type="application/json", headers=headers)
