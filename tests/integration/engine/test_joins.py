"""Views that join tables which all keep changing: each version is the query over all of them as of one instant (I1)."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import StarShop

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(lakehouse: Lakehouse) -> StarShop:
    return StarShop(lakehouse.spark, lakehouse.folder)


def test_a_star_follows_every_table_of_it(shop: StarShop) -> None:
    """I1: each table alone, and all in one window; a dimension of a dimension; old and new values of what joins."""
    shop.fill()
    shop.define_view()
    shop.start()
    shop.finish()
    shop.assert_joined()
    shop.change(
        "UPDATE {customers} SET country = 'es' WHERE id = 1",
        "UPDATE {customers} SET country = 'fr', name = 'moved' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "INSERT INTO {customers} VALUES (5, 'new', 'de')",
        "INSERT INTO {countries} VALUES ('de', 'Germany')",
        "DELETE FROM {countries} WHERE code = 'fr'",
        "UPDATE {orders} SET customer = 3 WHERE id = 8",
        "DELETE FROM {orders} WHERE id = 9",
    )
    shop.epoch()
    shop.assert_joined()
    assert shop.epoch() is None
