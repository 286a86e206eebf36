"""The warning of costly changes, in the barrier of an epoch."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core import refresh_cost
from airflow_backfill_provider.core.refresh_cost import EpochCost
from tests.several import shape_of_several
from tests.shop import Shop, minute

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(autouse=True)
def costs(monkeypatch):
    """With 60 orders, 20 of them are the break-even."""
    monkeypatch.setitem(refresh_cost.EPOCH_COSTS, "join", EpochCost(fixed=10, row=0.5, change=1))


@pytest.fixture
def shop(tmp_path):
    """Sixty orders, 30 for each of two customers."""
    with shape_of_several():
        shop = Shop(tmp_path)
        shop.commit("orders", 1.5, {"id": list(range(3, 61)), "customer": [1] * 58})
        shop.create()
        yield shop


def test_a_change_of_a_dimension_that_touches_very_much_is_a_warning_of_the_epoch_and_of_the_status(shop):
    shop.epoch()
    shop.customer(3, 3)
    shop.now = 4
    (warning,) = shop.epoch().warnings
    assert warning.startswith("at least 1 row of customers changed, and about 20 rows of orders or more")
    assert warning in shop.backfill.status(lambda: minute(5)).warnings


def test_a_change_of_the_lead_alone_is_none(shop):
    shop.epoch()
    shop.order(3, 61)
    shop.now = 4
    assert shop.epoch().warnings == ()


def test_a_change_while_history_is_read_is_none(shop):
    """A rebuild would read the same history again."""
    shop.customer(3, 3)
    shop.now = 4
    assert shop.epoch().warnings == ()


def test_the_rows_of_the_lead_are_those_at_the_end_of_its_window(shop):
    """With 80 customers, one more touches less than an order; with thousands of orders later on, it touches many."""
    shop.commit("customers", 1.6, {"id": list(range(3, 81)), "name": ["c"] * 78})
    shop.epoch()
    shop.customer(3, 81)
    shop.now = 4
    assert shop.epoch().warnings == ()
    shop.commit("orders", 5, {"id": list(range(61, 4_061)), "customer": [1] * 4_000})
    shop.commit("customers", 6, {"id": list(range(82, 182)), "name": ["c"] * 100})
    shop.now = 7
    (warning,) = shop.epoch().warnings
    assert "of customers changed, and about 2,0" in warning
