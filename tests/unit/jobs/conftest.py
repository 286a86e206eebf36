"""A small created job, for the tests that need no other."""

from __future__ import annotations

import pytest

from tests.property.backfilling import Prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=5)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 9, five rows an epoch."""
    return prepared.restore()


@pytest.fixture
def store(backfilling):
    return backfilling.store
