"""
A shape that only a folder of the tests knows goes through a whole backfill, from one line that registers it.

Its units are values of an expression. So the upstream has no column for them, their type is known to Spark alone, and a
unit looks like a key of the upstream without being one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.epoch.settings import ViewColumn
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from airflow_backfill_provider.shapes import KINDS
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.toy_groups import Tally

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    KINDS.register(Tally(), before="group")
    lakehouse.make_upstream("id BIGINT, amount INT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, id FROM range(20)")
    yield lakehouse
    KINDS.forget(Tally.name)


@pytest.mark.exhaustive
def test_groups_by_an_expression_are_verified_and_repaired_as_units(orders: Lakehouse) -> None:
    """I1: bucket 2 is another thing than the upstream's key 2."""
    query = "SELECT id % 3 AS bucket, count(*) AS n FROM upstream GROUP BY id % 3"
    settings = orders.create(query=query, rate_limit=9)
    assert (settings.shape, settings.strategy in {"no_shuffle", "arrangement"}) == ("tally", True)
    assert settings.view_columns == (ViewColumn(name="bucket", type="long"), ViewColumn(name="n", type="long"))
    orders.epoch()
    orders.assert_truth()
    orders.sql("DELETE FROM {upstream} WHERE id IN (1, 4)")
    orders.sql("INSERT INTO {upstream} VALUES (-2, 0), (-1, 0), (NULL, 1)")
    orders.finish()
    orders.assert_truth()
    orders.sql("UPDATE {view} SET n = 99 WHERE bucket = 2")
    with pytest.raises(AssertionError):
        orders.assert_truth()
    verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    asked = repairs.ask_for_repair(orders.backfill, requested_by="tester")
    assert asked is not None
    assert (asked.repair.vnodes, asked.repair.keys, asked.repair.units) == ((), (), (("2",),))
    orders.epoch()
    orders.assert_truth()
    mutations.repair_job(store=orders.backfill.store, requested_by="tester", vnodes=["0-3"])
    orders.epoch()
    orders.assert_equals_query("SELECT id % 3 AS bucket, count(*) AS n FROM {upstream} GROUP BY id % 3")
