"""A job whose view is finished."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from tests.property.backfilling import Backfilling


@pytest.fixture
def served(backfilling: Backfilling) -> Backfilling:
    """A finished view of everything."""
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    return backfilling
