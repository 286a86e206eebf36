"""A query that joins a lead with dimensions, as a job has it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.shapes import KINDS, shape_of
from airflow_backfill_provider.shapes.joined.join_query import check_join_query
from airflow_backfill_provider.shapes.several import QueryTable
from tests.builders import job_of, settings_of
from tests.several import star

ORDERS = QueryTable(key=("id",), types={"id": "long", "customer": "long", "parent": "long"}, required={"id"})
CUSTOMERS = QueryTable(key=("id",), types={"id": "long", "name": "string", "country": "string"})
COUNTRIES = QueryTable(key=("code",), types={"code": "string", "title": "string"})
TABLES = {"orders": ORDERS, "customers": CUSTOMERS, "countries": COUNTRIES}


def resolved(text, *names):
    return check_join_query(text).resolved({name: TABLES[name] for name in names})


STAR = (
    "SELECT o.id AS number, c.name FROM orders o JOIN customers c ON c.id = o.customer "
    "LEFT JOIN countries n ON n.code = c.country"
)


def test_a_query_over_several_tables_has_the_shape_join():
    job = BackfillJob(**star())
    assert shape_of(job).name == "join"
    assert job.lead_name == "orders"


def test_history_waits_unless_the_job_names_a_strategy():
    """Changes may reach a view of a join in every epoch, but nobody reads it before it is finished."""
    assert BackfillJob(**star()).visibility is Visibility.ON_FINISH
    assert BackfillJob(**star(strategy="snapshot")).visibility is Visibility.ON_FINISH
    assert BackfillJob(**star(strategy="no_shuffle")).visibility is Visibility.EVERY_EPOCH
    assert BackfillJob(**star(visibility="every_epoch")).visibility is Visibility.EVERY_EPOCH


def test_the_lead_is_restricted_by_its_role_and_all_other_roles_are_whole():
    query = resolved(STAR, "orders", "customers", "countries")
    assert query.read_whole == ("customers", "countries")
    text = query.text_over("some", {"customers": "c_1", "countries": "n_1"})
    assert "FROM `some` o JOIN `c_1` c" in text
    assert "LEFT JOIN `n_1` n" in text
    assert query.images() == {"customers": ("id",), "countries": ("code",)}

    staff = resolved("SELECT a.id, b.parent FROM orders a LEFT JOIN orders b ON b.id = a.parent", "orders")
    assert (staff.relations, staff.read_whole) == (("orders",), ("orders",))
    assert "FROM `some` a LEFT JOIN `every` b" in staff.text_over("some", {"orders": "every"})
    assert staff.images() == {"orders": ("id",)}


def test_another_table_may_lead():
    query = resolved("SELECT o.id, c.id AS c FROM orders o, customers c WHERE o.customer = c.id", "customers", "orders")
    assert (query.relations, query.read_whole) == (("customers", "orders"), ("orders",))
    assert query.unit_outputs == ("c",)
    right = resolved(
        "SELECT o.id, c.id AS c FROM orders o RIGHT JOIN customers c ON o.customer = c.id", "customers", "orders"
    )
    assert right.unit_outputs == ("c",)


def test_only_keys_that_rows_are_found_or_told_apart_by_are_relied_on():
    query = resolved(
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer)",
        "orders",
        "customers",
    )
    assert query.keyed == frozenset()
    assert resolved(STAR, "orders", "customers", "countries").keyed == {"customers", "countries"}


def test_a_changed_row_touches_the_leads_that_the_joins_lead_to():
    rows = {"orders": 1_000, "customers": 100, "countries": 10}
    (branch,) = resolved(STAR, "orders", "customers", "countries").branches(rows, lambda _name, _columns: None)
    assert branch.lead == "orders"
    assert {name: spread.mean for name, spread in branch.spreads.items()} == {"customers": 10, "countries": 100}


def test_the_units_are_the_leads_key_wherever_the_view_holds_it():
    query = resolved(STAR, "orders", "customers", "countries")
    settings = settings_of()
    assert query.unit_outputs == ("number",)
    assert query.row_columns.hidden == ()
    units = query.units(settings, by_key=True)
    assert (units.outputs, units.hashed, units.hashed_outputs) == (("number",), ("id",), ("number",))
    hidden = resolved("SELECT c.name FROM orders o JOIN customers c ON c.id = o.customer", "orders", "customers")
    assert hidden.unit_outputs == ("__key_id",)


def test_the_vnode_comes_from_the_distribution_key_only_if_the_view_has_it_unchanged():
    settings = settings_of(job_of(upstream={"path": "/lake/orders", "key": ["id"], "distribution_key": ["customer"]}))
    held = resolved(
        "SELECT o.customer AS whose FROM orders o JOIN customers c ON c.id = o.customer", "orders", "customers"
    )
    assert held.holds_distribution_key(settings)
    assert held.units(settings, by_key=False).hashed_outputs == ("whose",)
    other = resolved(
        "SELECT o.customer + 1 AS x FROM orders o JOIN customers c ON c.id = o.customer", "orders", "customers"
    )
    assert not other.holds_distribution_key(settings)


def test_the_lineage_names_tables_and_hidden_keys():
    lineage = resolved(STAR.replace("o.id AS number, ", ""), "orders", "customers", "countries").lineage(
        (), (), frozenset()
    )
    assert lineage.columns["name"].inputs == ("customers.name",)
    assert lineage.columns["__key_id"].inputs == ("orders.id",)
    assert "customers.country" in lineage.filtered_by


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM orders UNION ALL SELECT id FROM customers",
        "SELECT count(*) AS n FROM orders o JOIN customers c ON c.id = o.customer",
    ],
)
def test_unions_and_groups_have_shapes_of_their_own(query):
    with pytest.raises(InvalidJobError, match="unites or groups"):
        check_join_query(query)


def test_a_table_that_is_joined_with_itself_stands_under_upstreams():
    query = "SELECT a.id FROM upstream a JOIN upstream b ON a.id = b.parent"
    with pytest.raises(InvalidJobError, match="name its tables under upstreams"):
        BackfillJob(**star(upstreams=None, upstream={"path": "/lake/orders", "key": ["id"]}, query=query))


def test_a_query_is_not_used_before_it_is_resolved():
    with pytest.raises(TypeError, match="not resolved"):
        check_join_query(STAR).used_columns()
    assert KINDS.named("join").claims(STAR)
