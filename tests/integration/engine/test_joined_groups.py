"""
Views of groups over tables that are joined, and that all keep changing.

After every epoch such a view is its query over all tables as of one instant (I1): whichever of them changed, and
wherever an attempt died.
"""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import StarShop

pytestmark = pytest.mark.spark

JOINED = (
    "FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer LEFT JOIN countries AS n ON n.code = c.country"
)
FOLDED = f"SELECT n.title, count(*) AS n, sum(o.amount) AS total, max(o.amount) AS most {JOINED} GROUP BY n.title"


@pytest.fixture
def shop(lakehouse: Lakehouse) -> StarShop:
    """The tables of a star."""
    shop = StarShop(lakehouse.spark, lakehouse.folder)
    shop.fill()
    return shop


def test_a_fold_over_a_star_follows_every_table_of_it(shop: StarShop) -> None:
    """I1 and I2: each table alone, and all in one window, through attempts that die around the commit of the view."""
    shop.define_view(FOLDED)
    shop.start()
    shop.change("UPDATE {customers} SET country = 'es' WHERE id = 3")
    shop.finish()
    shop.assert_joined()
    assert shop.backfill.require_created().state_columns, "it is folded"

    # What an order counts for changes with its customer's country, though no order changes.
    shop.change("UPDATE {customers} SET country = 'es' WHERE id = 1")
    shop.epoch()
    shop.assert_joined()

    shop.change(
        "UPDATE {customers} SET country = 'de' WHERE id = 1",
        "UPDATE {customers} SET country = 'fr', name = 'moved' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "INSERT INTO {customers} VALUES (5, 'new', 'de')",
        "INSERT INTO {countries} VALUES ('de', 'Germany')",
        "UPDATE {countries} SET title = 'Espagne' WHERE code = 'es'",
        "UPDATE {orders} SET customer = 3, amount = 1000 WHERE id = 8",
        "DELETE FROM {orders} WHERE id IN (9, 39)",
        "INSERT INTO {orders} VALUES (90, 5, 7), (91, NULL, NULL)",
    )
    die_at_each(shop, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.AFTER_STATE_COMMIT)
    shop.epoch()
    shop.assert_joined()
    assert shop.epoch() is None
