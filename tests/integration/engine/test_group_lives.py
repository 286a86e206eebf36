"""The life of a view of groups after it is finished: compacted, rebuilt beside the one that serves, and put back."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.jobs import revert
from tests.integration.engine.grouped_orders import make_orders, truth
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.succeeding import grow, grown

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

FOLDED = "SELECT customer, count(*) AS n, sum(amount) AS total, min(at) AS first FROM upstream GROUP BY customer"
OTHER = "SELECT product, avg(amount) AS mean, max(amount) AS most FROM upstream GROUP BY product"
SLICED = "SELECT product, percentile(amount, 0.5) AS median FROM upstream GROUP BY product"


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Lakehouse:
    """A finished fold."""
    make_orders(lakehouse)
    lakehouse.create(query=FOLDED)
    lakehouse.finish()
    protocol.finish_job(store=lakehouse.backfill.store, requested_by="tester")
    return lakehouse


def change(orders: Lakehouse, number: int) -> None:
    """Move rows between groups, take extremes away, and let groups go and come."""
    orders.sql(f"UPDATE {{upstream}} SET customer = 'c{number}', amount = amount - 1 WHERE id % 7 = {number}")
    orders.sql(f"DELETE FROM {{upstream}} WHERE id % 11 = {number}")
    orders.sql(f"INSERT INTO {{upstream}} VALUES ({1000 + number}, 'new {number}', NULL, {number}, NULL)")


def assert_follows(orders: Lakehouse, query: str, number: int) -> None:
    change(orders, number)
    orders.epoch()
    orders.assert_equals_query(truth(query))
    orders.assert_truth()


def test_a_fold_goes_on_from_a_view_that_was_compacted_and_vacuumed(orders: Lakehouse) -> None:
    """The state of groups is in rows, and OPTIMIZE moves rows to other files; VACUUM deletes the old ones."""
    assert_follows(orders, FOLDED, 1)
    orders.sql("OPTIMIZE {view}")
    assert_follows(orders, FOLDED, 2)
    orders.sql("OPTIMIZE {view}")
    orders.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        orders.sql("VACUUM {view} RETAIN 0 HOURS")
    finally:
        orders.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert_follows(orders, FOLDED, 3)


@pytest.mark.parametrize("latter", [OTHER, SLICED], ids=["another-fold", "a-slice"])
def test_a_rebuild_keeps_a_fold_in_service_and_can_be_put_back(orders: Lakehouse, latter: str) -> None:
    """Both views follow the upstream until the latter takes its place; the former one goes on where it was."""
    grow(orders, query=latter)
    change(orders, 1)
    orders.epoch()
    orders.assert_equals_query(truth(FOLDED))
    grown(orders)
    orders.finish()
    orders.assert_equals_query(truth(latter))
    protocol.finish_job(store=orders.backfill.store, requested_by="tester")
    assert_follows(orders, latter, 2)
    revert.put_back(orders.backfill.store, engine=lambda: orders.engine, requested_by="tester")
    orders.finish()
    orders.assert_equals_query(truth(FOLDED))
    assert_follows(orders, FOLDED, 3)
