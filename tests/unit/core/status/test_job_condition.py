"""A job is finished, or there is one reason why not."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.status.job_condition import JobCondition, condition_of
from tests.builders import settings_of


@pytest.mark.parametrize(
    ("changes", "pinned", "finished", "condition"),
    [
        ({}, False, False, JobCondition.WAITING),
        ({}, True, False, JobCondition.RUNNING),
        ({"rate_limit": 0}, True, False, JobCondition.RATE_LIMIT_ZERO),
        ({"paused": True, "rate_limit": 0}, True, False, JobCondition.PAUSED),
        ({"paused": True}, False, True, JobCondition.FINISHED),
        ({"cancelled": True, "paused": True}, True, True, JobCondition.CANCELLED),
    ],
)
def test_of_several_conditions_the_first_one_counts(changes, pinned, finished, condition):
    assert condition_of(settings_of(**changes), finished=finished, pinned=pinned) is condition
