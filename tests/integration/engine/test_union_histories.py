"""Random histories of all tables of a union at once, with deaths: the view is the query over all of them (I1, I2)."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from tests.dying import died
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.shop_histories import History
from tests.integration.engine.shops import ALL_SALES, SALES, Shops

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

SELF = (
    "SELECT b.id, p.amount FROM berlin AS b LEFT JOIN paris AS p ON p.id = b.customer UNION ALL "
    "SELECT p.customer, p.amount FROM paris AS p WHERE EXISTS (SELECT 1 FROM berlin AS o WHERE o.customer = p.id)"
)
"""Each table leads a branch, and is joined to the other one."""
STEPS = (
    "SELECT name, doubled FROM (SELECT c.name, o.amount * 2 AS doubled FROM online AS o JOIN customers AS c ON c.id = "
    "o.customer UNION ALL SELECT 'b', amount FROM berlin) WHERE doubled > 3"
)
"""A step after the union."""
POINTS = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("query", [SALES, ALL_SALES, SELF, STEPS], ids=["sales", "all", "self", "steps"])
def test_the_view_follows_all_tables(lakehouse: Lakehouse, query: str, seed: int) -> None:
    """Chunks, throttles, waiting changes, windows of several commits, repairs; an attempt may die at any point."""
    shops = Shops.of(lakehouse)
    history = History(shops, seed)
    random = history.random
    shops.define_sales(query, rate_limit=random.choice([7, 11, 40]), parallelism=random.choice([1, 2]))
    shops.make(*shops.tables, rows=random.choice([6, 16]))
    shops.start()
    asked = {"store": shops.backfill.store, "requested_by": "tester"}
    for step in range(9):
        if random.random() < 0.8:
            history.change()
        if step == 2:
            mutations.throttle_job(random.choice([5, None]), **asked)
        if step in {5, 7}:
            mutations.repair_job(vnodes=[random.randint(0, 3)], **asked)
        barrier = shops.inject()
        if barrier is None:
            continue
        died(random.choice([None, *POINTS]), lambda barrier=barrier: shops.run(barrier))
        shops.run(barrier)
        if random.random() < 0.5:
            shops.assert_truth()
    shops.finish()
    shops.assert_united()
