"""Queries over several upstreams whose views are computed whole: what they may have, and how they are run."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.core.refresh import WAY_OUT
from airflow_backfill_provider.shapes.full.several_query import check_full_query_over_several
from airflow_backfill_provider.shapes.several import QueryTable

NAMES = ("orders", "customers")
REFUSED_BY_JOINS = [
    "SELECT o.id, c.name FROM orders o FULL JOIN customers c ON c.id = o.customer",
    "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id < o.customer",
    "SELECT o.id FROM orders o WHERE o.amount > (SELECT avg(c.amount) FROM customers c WHERE c.id = o.customer)",
    "SELECT name, count(*) AS n FROM orders JOIN customers USING (id) GROUP BY ROLLUP (name, city)",
    "SELECT id FROM orders EXCEPT SELECT id FROM customers",
    "SELECT o.id, (SELECT max(c.name) FROM customers c WHERE c.id = o.customer) AS name FROM orders o",
]


@pytest.mark.parametrize("query", REFUSED_BY_JOINS)
def test_what_joins_refuse_is_refused_with_the_way_out_and_accepted_by_it(query: str) -> None:
    """A refusal says what to set, and only a job that sets it is computed whole."""
    with pytest.raises(InvalidJobError) as refused:
        shape_of(query, upstreams=NAMES)
    assert str(refused.value).endswith(f"; {WAY_OUT}")
    assert shape_of(query, "full", NAMES).name == "full"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT o.id, rand() AS r FROM orders o JOIN customers c USING (id)", "rand, which is not deterministic"),
        ("SELECT o.id FROM orders o JOIN customers c USING (id) ORDER BY o.id", "ORDER BY, which no view can have"),
        (
            "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = o.id LIMIT 1)",
            "LIMIT, which no view can have",
        ),
        ("SELECT o.id FROM orders o JOIN customers VERSION AS OF 3 c USING (id)", "without a version|syntax error"),
        ("SELECT o.id FROM orders o JOIN parquet.`/secret` c USING (id)", "it may read upstream only, or names under"),
        ("SELECT o.id FROM orders o, customers c", "in another place than after FROM and JOIN"),
        (
            "SELECT o.id FROM orders o JOIN customers c ON c.id = o.id AND c.id IN (SELECT id FROM orders)",
            "a subquery in ON, which no view can have; join what it reads, too, or write it in WHERE",
        ),
    ],
)
def test_what_no_view_can_have_is_refused_here_too(query: str, said: str) -> None:
    with pytest.raises(InvalidJobError, match=said):
        shape_of(query, "full", NAMES)


def test_calls_that_need_an_order_are_refused_because_no_order_of_a_join_is_known() -> None:
    query = "SELECT row_number() OVER (PARTITION BY c.id ORDER BY o.id) AS n FROM orders o JOIN customers c USING (id)"
    with pytest.raises(InvalidJobError, match="row_number, whose result may depend on the order of rows"):
        check_full_query_over_several(query).require_orders(["id"])


def test_each_table_is_read_where_the_query_names_it_and_keeps_its_name() -> None:
    """Also in a subquery, in any case, and several times; a common table expression is none of them."""
    query = check_full_query_over_several(
        "WITH big AS (SELECT * FROM Orders WHERE amount > 1) SELECT big.id, orders.amount FROM big "
        "JOIN orders USING (id) WHERE big.id NOT IN (SELECT id FROM `customers` c)"
    ).resolved({"orders": QueryTable(key=("id",)), "customers": QueryTable(key=("id",))})
    assert query.relations == ("orders", "customers")
    assert query.text_over("a", {"customers": "b"}) == (
        "WITH big AS (SELECT * FROM `a` AS `Orders` WHERE amount > 1) SELECT big.id, orders.amount FROM big "
        "JOIN `a` AS `orders` USING (id) WHERE big.id NOT IN (SELECT id FROM `b` c)"
    )


def test_whatever_table_leads_each_is_read_where_the_query_names_it() -> None:
    """The first of its tables leads, and it need not be the first in FROM."""
    query = check_full_query_over_several("SELECT o.id FROM orders o FULL JOIN customers c ON c.id = o.id")
    led = query.resolved({"customers": QueryTable(key=("id",)), "orders": QueryTable(key=("id",))})
    assert (led.relations, led.read_whole) == (("customers", "orders"), ("orders",))
    assert led.text_over("lead", {"orders": "whole"}) == (
        "SELECT o.id FROM `whole` o FULL JOIN `lead` c ON c.id = o.id"
    )


def test_the_used_columns_of_each_table_are_those_that_the_query_names() -> None:
    tables = {
        "orders": QueryTable(key=("id",), types={"id": "long", "Amount": "long", "note": "string"}),
        "customers": QueryTable(key=("id",), types={"id": "long", "name": "string", "city": "string"}),
    }
    joined = "FROM orders o FULL JOIN customers c ON o.id = c.id AND c.name > 'a'"
    named = f"SELECT o.id, sum(amount) AS s {joined} GROUP BY o.id"
    query = check_full_query_over_several(named).resolved(tables)
    assert query.used_columns() == {"orders": ("id", "Amount"), "customers": ("id", "name")}
    assert query.inexact(["s"]) == {"s"}
    star = check_full_query_over_several("SELECT c.* FROM orders o FULL JOIN customers c ON o.id = c.id").resolved(
        tables
    )
    assert star.used_columns()["customers"] == ("id", "name", "city")
    assert star.inexact(["s"]) == frozenset()


def test_a_job_has_to_name_the_tables() -> None:
    fields = {
        "name": "all",
        "materialized_view": "/lake/all",
        "query": REFUSED_BY_JOINS[0],
        "refresh": "full",
    }
    with pytest.raises(
        InvalidJobError, match="the query reads orders, customers, so name these tables under upstreams"
    ):
        BackfillJob(**fields, upstream={"path": "/lake/orders", "key": ["id"]})
    job = BackfillJob(**fields, upstreams={name: {"path": f"/lake/{name}", "key": ["id"]} for name in NAMES})
    assert (job.lead_name, list(job.others)) == ("orders", ["customers"])
