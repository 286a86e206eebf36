"""A created job over nine orders."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.jobs.backfill import Backfill
from tests.builders import Orders, job_of
from tests.plain_engine import make


@pytest.fixture
def orders(lake):
    orders = Orders(lake)
    orders.add(*range(9))
    return orders


@pytest.fixture
def backfill(lake, orders):
    """A created job over nine orders, three an epoch."""
    backfill = Backfill(job_of(lake, rate_limit=3))
    make(backfill)
    return backfill
