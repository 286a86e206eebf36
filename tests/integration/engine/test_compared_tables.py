"""Views over tables of which only the lead records its changes: the rows of the others are compared."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DuplicateKeyError
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import STAR, StarShop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

FOLD = (
    "SELECT c.country, count(*) AS n, sum(o.amount) AS total FROM orders AS o JOIN customers AS c ON c.id = o.customer "
    "GROUP BY c.country"
)
SLICE = (
    "SELECT n.title, max(c.name) AS last, count(DISTINCT o.customer) AS customers FROM orders AS o "
    "LEFT JOIN customers AS c ON c.id = o.customer LEFT JOIN countries AS n ON n.code = c.country GROUP BY n.title"
)
NONE_ORDERED = "SELECT o.id FROM orders AS o WHERE NOT EXISTS (SELECT 1 FROM customers AS c WHERE c.id = o.customer)"
UNION = (
    "SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer "
    "UNION ALL SELECT o.id, 'all' AS name FROM orders AS o"
)


@pytest.fixture
def shop(lakehouse: Lakehouse) -> StarShop:
    made = StarShop(lakehouse.spark, lakehouse.folder)
    made.fill("orders", "customers", "countries", unrecorded=("customers", "countries"))
    return made


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(STAR, id="star"),
        exhaustive(FOLD, name="fold"),
        exhaustive(SLICE, name="slice"),
        exhaustive(NONE_ORDERED, name="anti"),
        exhaustive(UNION, name="union"),
    ],
)
def test_a_view_follows_tables_that_record_no_changes(shop: StarShop, query: str) -> None:
    """I1, I2 and I6: rows are changed, removed, get other keys, and are there twice; attempts die."""
    shop.start(query)
    others = shop.backfill.settings().others
    assert {found.compared for found in others.values()} == {True}
    shop.change("UPDATE {customers} SET name = 'renamed' WHERE id = 4")
    shop.finish()
    shop.assert_joined()

    shop.change(
        "UPDATE {customers} SET id = 5 WHERE id = 2",
        "DELETE FROM {customers} WHERE id = 3",
        "UPDATE {customers} SET country = 'es' WHERE id = 0",
        "DELETE FROM {countries} WHERE code = 'fr'",
    )
    assert not shop.pin().lead_has_changes
    die_at_each(shop, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)
    shop.epoch()
    shop.assert_joined()

    shop.change("INSERT INTO {customers} SELECT * FROM {customers} WHERE id = 1", "DELETE FROM {orders} WHERE id = 8")
    if query != NONE_ORDERED:
        with pytest.raises(DuplicateKeyError, match=r"customers has several rows .*\(id\)"):
            shop.epoch()
        shop.change("DELETE FROM {customers} WHERE id = 1", "INSERT INTO {customers} VALUES (1, 'one', NULL)")
    shop.epoch()
    shop.assert_query()
    assert shop.epoch() is None
