"""How many rows of a lead a changed row of each upstream touches, by the numbers of rows."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.joined.spread import spreads
from airflow_backfill_provider.shapes.spread import Spread
from tests.unit.shapes.joined.shop import resolved

ROWS = {"orders": 1_000, "customers": 100, "countries": 10, "lines": 5_000, "products": 50}
MOST = {("orders", "customer_id"): 40, ("customers", "country"): 30}


def most(upstream, columns):
    return MOST.get((upstream, *columns))


def found(text, rows=ROWS):
    return spreads(resolved(text).trees[0], rows, most)


def test_a_dimension_of_a_dimension_touches_the_leads_of_all_its_rows():
    text = (
        "SELECT o.id, k.name FROM orders o JOIN customers c ON c.id = o.customer_id JOIN countries k ON "
        "k.code = c.country"
    )
    assert found(text) == {
        "customers": Spread(mean=10.0, most=40),
        "countries": Spread(mean=100.0, most=1_000),
    }


def test_what_names_the_key_of_the_lead_touches_one_row():
    text = (
        "SELECT o.id, l.number, p.name FROM orders o JOIN lines l ON l.order_id = o.id JOIN products p "
        "ON p.id = l.product"
    )
    assert found(text) == {"lines": Spread(mean=1.0, most=1), "products": Spread(mean=100.0, most=None)}


def test_a_table_with_several_roles_touches_rows_in_each():
    text = (
        "SELECT o.id, c.name, d.name AS payer FROM orders o JOIN customers c ON c.id = o.customer_id LEFT JOIN "
        "customers d ON d.id = o.parent_id"
    )
    assert found(text) == {"customers": Spread(mean=20.0, most=None)}


def test_the_lead_touches_rows_where_it_is_joined_with_itself():
    text = "SELECT o.id, p.day AS before FROM orders o LEFT JOIN orders p ON p.id = o.parent_id"
    assert found(text) == {"orders": Spread(mean=1.0, most=None)}


@pytest.mark.parametrize("customers", [0, 1])
def test_a_table_with_hardly_any_rows_touches_no_more_than_all(customers):
    text = "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id"
    assert found(text, {**ROWS, "customers": customers})["customers"].mean == 1_000
