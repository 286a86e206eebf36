"""What the tests of a job's definition share."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from tests.builders import job_of


def refusal(**changes) -> str:
    with pytest.raises(InvalidJobError) as caught:
        job_of(**changes)
    return str(caught.value)


def upstream(**changes):
    return {"path": "/lake/orders", "key": ["id"], **changes}
