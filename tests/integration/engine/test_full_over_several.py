"""
Jobs with ``refresh: full`` over several upstreams on real Spark: after every epoch the view is the query over all.

The upstreams record no changes, so nothing but their rows and their logs can be read.
"""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import TABLES, StarShop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lakehouse: Lakehouse) -> StarShop:
    made = StarShop(lakehouse.spark, lakehouse.folder)
    for name in ("orders", "customers"):
        made.change(f"CREATE TABLE {{{name}}} ({TABLES[name][0]}) USING delta")
    made.change(
        "INSERT INTO {orders} SELECT id, IF(id % 7 = 0, NULL, id % 6), id DIV 3, CAST(id AS INT) FROM range(40)",
        "INSERT INTO {customers} SELECT id, concat('c', id), IF(id = 2, NULL, 'fr') FROM range(3, 9)",
    )
    return made


@pytest.mark.parametrize(
    "query",
    [
        "SELECT o.id, c.name FROM orders AS o FULL JOIN customers AS c ON c.id = o.customer AND c.id < o.amount",
        exhaustive(
            "SELECT c.name, count(*) AS n, sum(o.amount) AS total FROM orders AS o JOIN customers AS c "
            "ON c.id < o.customer GROUP BY ROLLUP (c.name, c.country)",
            name="rollup",
        ),
        exhaustive(
            "SELECT o.id FROM orders AS o WHERE o.amount > "
            "(SELECT avg(c.id) FROM customers AS c WHERE c.id > o.customer)",
            name="correlated",
        ),
        exhaustive(
            "SELECT o.id, (SELECT max(c.name) FROM customers AS c WHERE c.id = o.customer) AS name, "
            "coalesce((SELECT min(c.id) FROM customers AS c), 0) AS least FROM orders AS o",
            name="values",
        ),
        exhaustive("SELECT id FROM orders EXCEPT SELECT id FROM customers", name="except"),
    ],
)
def test_a_view_that_is_computed_whole_follows_all_tables_through_changes_and_crashes(
    shop: StarShop, query: str
) -> None:
    """I1 and I2: only another table than the lead changes, both do, and neither has a change feed."""
    shop.start(query, refresh="full", lead="orders")
    settings = shop.backfill.settings()
    assert (settings.shape, settings.strategy) == ("full", "snapshot")
    shop.change("UPDATE {customers} SET name = 'renamed' WHERE id = 4")
    shop.finish()
    shop.assert_joined()
    before = str(DeltaTable(shop.view_path).metadata().id)
    shop.change("DELETE FROM {customers} WHERE id = 5", "INSERT INTO {customers} VALUES (0, 'new', 'de')")
    barrier = shop.pin()
    assert (list(barrier.changed_others), barrier.lead_has_changes) == (["customers"], False)
    die_at_each(shop, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)
    shop.epoch()
    shop.assert_joined()
    shop.change("UPDATE {orders} SET customer = 3 WHERE id < 4", "UPDATE {customers} SET id = 50 WHERE id = 3")
    shop.epoch()
    shop.assert_joined()
    assert shop.epoch() is None
    assert str(DeltaTable(shop.view_path).metadata().id) == before, "readers of its changes go on"
