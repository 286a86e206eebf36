"""What the API answers if something is refused."""

from __future__ import annotations

import json
from typing import cast

import pytest
from fastapi import Request

from airflow_backfill_provider.core.errors import InvalidJobError, JobCancelledError, StorageUnavailableError
from airflow_backfill_provider.plugin.app import _refused


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidJobError("parallelism: 0 is no number"), 422),
        (StorageUnavailableError("the lake cannot be reached"), 503),
        (JobCancelledError("job orders was cancelled"), 409),
    ],
)
def test_an_error_is_answered_with_its_message_and_a_fitting_status_code(error, code):
    """The pages ask again after 503 alone."""
    answer = _refused(cast("Request", None), error)
    assert (answer.status_code, json.loads(bytes(answer.body))) == (code, {"detail": str(error)})
