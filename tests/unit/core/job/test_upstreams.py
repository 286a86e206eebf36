"""The upstreams of a job: what a definition may name, which one leads, and what stays as it was for one upstream."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.builders import job_of
from tests.several import LOOKUP, shape_of_several, star

CUSTOMERS = {"path": "/lake/customers", "key": ["id"]}
ORDERS = {"path": "/lake/orders", "key": ["id"]}


@pytest.fixture(autouse=True)
def _shape():
    with shape_of_several():
        yield


def refusal(**changes) -> str:
    with pytest.raises(InvalidJobError) as caught:
        BackfillJob(**star(**changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_first_table_in_from_leads_whatever_the_order_of_the_names():
    for names in (("orders", "customers"), ("customers", "orders")):
        job = BackfillJob(**star(upstreams={name: {"orders": ORDERS, "customers": CUSTOMERS}[name] for name in names}))
        assert (job.lead_name, list(job.all_upstreams)) == ("orders", ["orders", "customers"])
        assert (job.upstream.location, list(job.others)) == ("/lake/orders", ["customers"])


def test_a_job_may_say_which_table_leads():
    job = BackfillJob(**star(lead="customers"))
    assert (job.lead_name, job.upstream.location, list(job.others)) == ("customers", "/lake/customers", ["orders"])


def test_a_definition_is_kept_as_it_was_given():
    job = BackfillJob(**star())
    kept = job.model_dump(mode="json")
    assert "upstream" not in kept
    assert list(kept["upstreams"]) == ["orders", "customers"]
    assert BackfillJob(**json.loads(json.dumps(kept))) == job
    assert "upstream:" not in str(job)
    assert list(job.definition()["upstreams"]) == ["orders", "customers"]


def test_a_job_of_one_upstream_has_no_new_fields():
    job = job_of()
    assert {"upstreams", "lead"}.isdisjoint(job.model_dump(mode="json"))
    assert (job.lead_name, list(job.all_upstreams), job.others) == ("upstream", ["upstream"], {})


def test_all_folders_have_the_names_of_their_fields():
    assert BackfillJob(**star()).separate_folders == {
        "upstreams.orders.path": "/lake/orders",
        "upstreams.customers.path": "/lake/customers",
        "materialized_view": "/lake/named_orders",
        "state": "/lake/_backfill/named_orders",
    }


def test_a_view_in_the_folder_of_any_upstream_is_refused():
    assert "in upstreams.customers.path (/lake/customers)" in refusal(materialized_view="/lake/customers/view")


def test_tables_that_are_named_in_a_catalog_are_placed_each():
    named = {"orders": ORDERS, "customers": {"table": "spark_catalog.shop.customers", "key": ["id"]}}
    job = BackfillJob(**star(upstreams=named))
    assert not job.is_placed
    placed = job.placed(others={"customers": "/lake/shop/customers"})
    assert placed.is_placed
    assert placed.others["customers"].location == "/lake/shop/customers"
    assert job.placed_like(placed) == placed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"upstream": ORDERS}, "upstream and upstreams are both given"),
        ({"upstreams": {}}, "upstreams: names no table"),
        ({"upstreams": {"orders": ORDERS, "cus tomers": CUSTOMERS}}, "upstreams: 'cus tomers' is no plain name"),
        ({"upstreams": {"orders": ORDERS, "1st": CUSTOMERS}}, "'1st' is no plain name"),
        ({"upstreams": {"orders": ORDERS, "Orders": CUSTOMERS}}, "orders and Orders differ only in case"),
        ({"upstreams": {"orders": ORDERS, "customers": ORDERS}}, "orders and customers are one table, /lake/orders"),
        ({"lead": "people"}, "lead: people is none of upstreams (orders, customers)"),
        ({"upstreams": {"orders": ORDERS, "people": CUSTOMERS}}, "query: it reads customers, which is none of"),
        (
            {"upstreams": {"orders": ORDERS, "customers": CUSTOMERS, "countries": {"path": "/lake/c", "key": ["id"]}}},
            "upstreams: the query does not read countries",
        ),
        (
            {"upstreams": {"orders": ORDERS, "customers": {"path": "/lake/customers"}}},
            "upstreams.customers.key: is req",
        ),
        ({"upstreams": {"orders": ORDERS, "customers": {**CUSTOMERS, "keys": 1}}}, "upstreams.customers.keys: unknown"),
        (
            {"upstreams": {"orders": ORDERS, "customers": {"postgres": {"key": ["id"], "tables": 1}}}},
            "upstreams.customers.postgres.tables: unknown field; allowed are connection",
        ),
        ({"upstreams": {"orders": ORDERS, "customers": {**CUSTOMERS, "key": [7]}}}, "upstreams.customers.key.0: "),
        ({"upstreams": ["orders"]}, "upstreams: Input should be a valid dictionary"),
        ({"refresh": "full"}, "query: no shape with this refresh reads several upstreams"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(changes, said):
    assert said in refusal(**changes)


def test_wrong_upstreams_are_refused_without_a_word_about_the_query():
    assert refusal(upstreams={"orders": ORDERS, "customers": {}}).count("query") == 0


def test_one_upstream_cannot_be_told_to_lead():
    with pytest.raises(InvalidJobError, match="lead: upstream is the only table, so upstream cannot lead"):
        job_of(lead="upstream")


def test_without_a_shape_that_takes_several_a_job_is_refused():
    with (
        shape_of_several(registered=False),
        pytest.raises(InvalidJobError, match="no shape with this refresh reads several upstreams"),
    ):
        BackfillJob(**star(query=LOOKUP))
