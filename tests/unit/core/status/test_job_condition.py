"""A job is finished, or there is one reason why not."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.job_condition import JobCondition, condition_of
from tests.builders import settings_of


@pytest.mark.parametrize(
    ("changes", "pinned", "reached", "condition"),
    [
        ({}, False, "", JobCondition.WAITING),
        ({}, True, "", JobCondition.RUNNING),
        ({"rate_limit": 0}, True, "", JobCondition.RATE_LIMIT_ZERO),
        ({"paused": True, "rate_limit": 0}, True, "", JobCondition.PAUSED),
        ({"paused": True}, False, "finished", JobCondition.FINISHED),
        ({"paused": True}, True, "ready", JobCondition.READY),
        ({"cancelled": True, "paused": True}, True, "finished", JobCondition.CANCELLED),
    ],
)
def test_of_several_conditions_the_first_one_counts(changes, pinned, reached, condition):
    found = condition_of(
        settings_of(**changes), finished=reached == "finished", ready=reached == "ready", pinned=pinned
    )
    assert found is condition
