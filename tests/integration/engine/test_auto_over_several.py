"""Jobs with ``refresh: auto`` over several upstreams: some epochs join what changed, and others compute the whole."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.refresh_cost import EPOCH_COSTS, EpochCost
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import STAR, StarShop
from tests.integration.engine.test_compared_tables import FOLD, SLICE
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

UNION = (
    "SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer "
    "UNION ALL SELECT id, name FROM customers"
)


@pytest.fixture
def shop(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> StarShop:
    for name in EPOCH_COSTS:
        monkeypatch.setitem(refresh_cost.EPOCH_COSTS, name, EpochCost(fixed=0, row=0, change=3))
    made = StarShop(lakehouse.spark, lakehouse.folder)
    made.fill("orders", "customers", "countries")
    return made


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(STAR, id="star"),
        exhaustive(UNION, name="union"),
        exhaustive(FOLD, name="fold"),
        exhaustive(SLICE, name="slice"),
    ],
)
def test_epochs_that_compute_the_whole_view_and_those_that_join_changes_take_turns(shop: StarShop, query: str) -> None:
    """I1, I2 and I6: each goes on from what the other left; attempts die, and keys are there twice."""
    shop.start(query, refresh="auto")
    shop.finish()
    for change in (
        "UPDATE {orders} SET customer = 4, amount = 99 WHERE id = 3",
        "UPDATE {customers} SET name = 'renamed', country = 'es' WHERE id <> 2",
        "UPDATE {orders} SET customer = 2 WHERE id = 9",
    ):
        shop.change(change)
        if shop.pin().computes_whole:
            die_at_each(shop, CrashPoint.AFTER_CHANGES_COMMIT)
        shop.epoch()
        shop.assert_query()
    chosen = [barrier.refresh.whole for barrier in shop.barriers() if barrier.refresh]
    assert chosen == [False, True, False]
    shop.assert_truth()

    shop.change("UPDATE {customers} SET id = 0 WHERE id = 1", "UPDATE {orders} SET amount = 7")
    barrier, rows = shop.pin(), shop.view().collect()
    assert barrier.computes_whole
    with pytest.raises(DuplicateKeyError, match=r"customers has several rows .*\(id\)"):
        shop.run(barrier)
    assert shop.view().collect() == rows
