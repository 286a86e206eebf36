"""Results that depend on the order of equal rows are refused, and accepted with an order that has no equal rows."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.group.query import check_group_query

REFUSED = [
    ("SELECT first(x) AS f FROM upstream GROUP BY c", "first, whose .*; write min"),
    ("SELECT any_value(x) AS f FROM upstream", "any_value, whose .*; write min"),
    ("SELECT last_value(x) AS f FROM upstream GROUP BY c", "last_value, whose"),
    ("SELECT collect_list(x) AS f FROM upstream GROUP BY c", r"; write sort_array\(collect_list"),
    ("SELECT size(array_sort(collect_list(x), (a, b) -> 1)) AS f FROM upstream GROUP BY c", "collect_list, whose"),
    ("SELECT sort_array(collect_list(x)[1]) AS f FROM upstream GROUP BY c", "collect_list, whose"),
    ("SELECT array_agg(x) AS f FROM upstream GROUP BY c", "array_agg, whose"),
    ("SELECT collect_set(x) AS f FROM upstream GROUP BY c", r"sort_array\(collect_set"),
    ("SELECT listagg(x, ',') AS f FROM upstream GROUP BY c", r"WITHIN GROUP \(ORDER BY x\)"),
    ("SELECT listagg(x) WITHIN GROUP (ORDER BY y) AS f FROM upstream GROUP BY c", "listagg, whose"),
    ("SELECT max_by(x, y) AS f FROM upstream GROUP BY c", r"max_by by values that may be equal.*struct\(y, id\)"),
    ("SELECT min_by(x, struct(y, z)) AS f FROM upstream GROUP BY c", "min_by by values"),
    ("SELECT mode(x) AS f FROM upstream GROUP BY c", r"write mode\(x, true\)"),
    ("SELECT mode(x, false) AS f FROM upstream GROUP BY c", r"write mode\(x, true\)"),
    (
        "SELECT row_number() OVER (PARTITION BY c ORDER BY x) AS r FROM upstream",
        "row_number OVER .*such as id; or .*rank",
    ),
    ("SELECT * FROM upstream QUALIFY row_number() OVER (PARTITION BY c ORDER BY x DESC) = 1", "row_number OVER"),
    ("SELECT lag(x) OVER (PARTITION BY c ORDER BY at) AS r FROM upstream", "lag OVER"),
    ("SELECT lead(x) IGNORE NULLS OVER w AS r FROM upstream WINDOW w AS (PARTITION BY c ORDER BY at)", "lead OVER"),
    ("SELECT first(x) OVER (PARTITION BY c ORDER BY at) AS r FROM upstream", "first OVER"),
    ("SELECT collect_list(x) OVER (PARTITION BY c) AS r FROM upstream", "collect_list OVER"),
    ("SELECT ntile(4) OVER (PARTITION BY c ORDER BY at) AS r FROM upstream", "ntile OVER"),
    (
        "SELECT sum(x) OVER (PARTITION BY c ORDER BY at ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS r FROM upstream",
        "a frame of ROWS OVER",
    ),
    (
        "SELECT row_number() OVER (PARTITION BY a ORDER BY sum(x)) AS r FROM upstream GROUP BY a, b",
        "row_number OVER",
    ),
    (
        "SELECT row_number() OVER (PARTITION BY a ORDER BY s) AS r FROM "
        "(SELECT a, b, sum(x) AS s FROM upstream GROUP BY a, b)",
        "row_number OVER",
    ),
    (
        "SELECT row_number() OVER (PARTITION BY a ORDER BY id) AS r FROM (SELECT a, x AS id FROM upstream)",
        "row_number OVER",
    ),
]

ACCEPTED = [
    "SELECT sort_array(collect_list(x), false) AS f, array_sort(collect_set(y)) AS g FROM upstream GROUP BY c",
    "SELECT listagg(x, ',') WITHIN GROUP (ORDER BY x DESC) AS f FROM upstream GROUP BY c",
    "SELECT listagg(u.`first`, ',') WITHIN GROUP (ORDER BY u.`first` ASC NULLS FIRST) AS f FROM upstream u GROUP BY c",
    "SELECT listagg(u.last) WITHIN GROUP (ORDER BY u.last) AS f FROM upstream u GROUP BY c",
    "SELECT string_agg(x) WITHIN GROUP (ORDER BY y NULLS LAST, id ASC) AS f FROM upstream GROUP BY c",
    "SELECT max_by(x, struct(y, id)) AS f, min_by(x, u.id) AS g FROM upstream u GROUP BY c",
    "SELECT mode(x, true) AS f, mode() WITHIN GROUP (ORDER BY x) AS g FROM upstream GROUP BY c",
    "SELECT row_number() OVER (PARTITION BY c ORDER BY x, u.`ID` DESC NULLS LAST) AS r FROM upstream u",
    "SELECT rank() OVER w AS r, dense_rank() OVER w AS d, sum(x) OVER w AS s, percent_rank() OVER w AS p FROM upstream "
    "WINDOW w AS (PARTITION BY c ORDER BY x)",
    "SELECT lag(x, 1) OVER (PARTITION BY c ORDER BY at, id) AS r, first(x) OVER (PARTITION BY c ORDER BY id) AS f "
    "FROM upstream",
    "SELECT sum(x) OVER (PARTITION BY c ORDER BY at, id ROWS UNBOUNDED PRECEDING) AS r FROM upstream",
    "SELECT sum(x) OVER (PARTITION BY c ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS r FROM upstream",
    "SELECT sum(x) OVER (PARTITION BY c ORDER BY at RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS r FROM upstream",
    "SELECT row_number() OVER (PARTITION BY id ORDER BY x) AS r FROM upstream",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY sum(x), b) AS r FROM upstream GROUP BY a, b",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY s, k) AS r FROM "
    "(SELECT a, b AS k, sum(x) AS s FROM upstream GROUP BY a, b)",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY nr) AS r FROM (SELECT a, id AS nr FROM upstream)",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM (SELECT DISTINCT a, b FROM upstream)",
]


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_an_order_with_equal_rows_is_refused_with_what_to_write(query, said):
    with pytest.raises(InvalidJobError, match=said):
        check_group_query(query).require_orders(["id"])


@pytest.mark.parametrize("query", ACCEPTED)
def test_an_order_without_equal_rows_is_accepted(query):
    check_group_query(query).require_orders(["id"])


def test_an_order_needs_every_column_of_the_key():
    query = check_group_query("SELECT row_number() OVER (PARTITION BY c ORDER BY a) AS r FROM upstream")
    with pytest.raises(InvalidJobError, match="such as a, b"):
        query.require_orders(["a", "b"])
    query.require_orders(["a", "c"])
