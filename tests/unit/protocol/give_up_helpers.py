"""
What the tests of giving up an epoch have in common: jobs, and rows that the query fails on.

Each test module assigns the fixtures it needs to their own names, because pytest looks for fixtures in the module.
"""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import QueryFailedError
from tests.builders import PAID
from tests.property.backfilling import Prepared
from tests.property.memory_queries import BAD
from tests.variants import exhaustive


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("places"), range(10), rate_limit=4, query=PAID)


@pytest.fixture(scope="module")
def vnodes(tmp_path_factory):
    return Prepared(
        tmp_path_factory.mktemp("vnodes"),
        range(10),
        rate_limit=4,
        query=PAID,
        strategy="arrangement",
        parallelism=2,
        vnode_count=4,
    )


@pytest.fixture(params=["places", "vnodes"])
def backfilling(request):
    """A created job over the orders 0 to 9, four rows an epoch."""
    return request.getfixturevalue(request.param).restore()


@pytest.fixture(params=["places", exhaustive("vnodes")])
def dying(request):
    """The same, for tests with many cases."""
    return request.getfixturevalue(request.param).restore()


def spoil(backfilling, *ids):
    backfilling.orders.change(ids, amount=BAD)


def heal(backfilling, *ids):
    backfilling.orders.change(ids, amount=7)


def fail(backfilling):
    """Run an epoch that the query fails in."""
    barrier = backfilling.inject()
    with pytest.raises(QueryFailedError, match="is given up"):
        backfilling.run(barrier)
    return barrier


def finish(backfilling):
    """Run to the end, and require that the view equals the query."""
    backfilling.finish_watched()
    rows = backfilling.orders.rows.items()
    assert sorted(backfilling.rows()) == sorted((i, 100 * amount) for i, (status, amount) in rows if status == "paid")
    return backfilling.store.settings()
