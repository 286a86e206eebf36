"""A created job over nine orders."""

from __future__ import annotations

import pytest

from tests.unit.jobs.verification.verifying import created_job, nine_orders


@pytest.fixture
def orders(lake):
    return nine_orders(lake)


@pytest.fixture
def backfill(lake, orders):
    return created_job(lake)
