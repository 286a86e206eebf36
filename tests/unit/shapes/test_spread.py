"""How many rows of a lead a changed row touches, over several hops and in several roles."""

from __future__ import annotations

from airflow_backfill_provider.shapes.spread import Spread


def test_hops_multiply_and_roles_add_up():
    customers, orders = Spread(mean=20.0, most=50), Spread(mean=3.0, most=7)
    assert customers.times(orders) == Spread(mean=60.0, most=350)
    assert customers.plus(orders) == Spread(mean=23.0, most=57)


def test_the_most_is_unknown_if_one_of_them_was_not_counted():
    counted, other = Spread(mean=2.0, most=2), Spread(mean=2.0, most=None)
    assert counted.times(other).most is None
    assert other.plus(counted).most is None


def test_no_more_rows_are_touched_than_there_are():
    assert Spread(mean=60.0, most=350).capped(100) == Spread(mean=60.0, most=100)
    assert Spread(mean=160.0, most=None).capped(100) == Spread(mean=100.0, most=None)
