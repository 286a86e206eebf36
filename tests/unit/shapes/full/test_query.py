"""What a query may have whose view is computed whole, and how it is run."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.core.refresh import WAY_OUT
from airflow_backfill_provider.shapes.full.query import check_full_query
from docs.blocks import run_by

ACCEPTED = [
    "SELECT a, count(*) AS n FROM upstream GROUP BY ROLLUP (a, b)",
    "SELECT a, count(*) AS n FROM upstream GROUP BY a, b WITH CUBE",
    "SELECT a, grouping(a) AS g FROM upstream GROUP BY GROUPING SETS ((a), ())",
    "SELECT count(*) AS n FROM upstream HAVING count(*) > 2",
    "SELECT id, rank() OVER (ORDER BY amount) AS place FROM upstream",
    "SELECT l.id, r.id AS other FROM upstream l FULL JOIN upstream r ON l.id = r.parent",
    "SELECT l.id FROM upstream l JOIN (SELECT id FROM upstream WHERE amount > 1) r ON l.id < r.id",
    "SELECT id FROM upstream INTERSECT SELECT parent FROM upstream",
    "SELECT explode(tags) AS tag FROM upstream",
]


PAGE = run_by("tests/unit/shapes/full/test_query.py", "docs/concepts/query.md")


def test_the_queries_of_the_page_are_accepted_with_this_key() -> None:
    queries = [query for block in PAGE for query in block.text.strip().split("\n\n")]
    assert len(queries) == 3
    for query in queries:
        check_full_query(query).require_orders(["order_id"])


@pytest.mark.parametrize("query", ACCEPTED)
def test_what_no_other_shape_accepts_is_refused_with_the_way_out_and_accepted_by_it(query: str) -> None:
    """A refusal says what to set, and only a job that sets it is computed whole."""
    with pytest.raises(InvalidJobError) as refused:
        shape_of(query)
    assert str(refused.value).endswith(f"; {WAY_OUT}")
    assert shape_of(query, "full").name == "full"


@pytest.mark.parametrize("query", ["SELECT id FROM upstream", "SELECT a, sum(b) AS s FROM upstream GROUP BY a"])
def test_a_job_may_ask_for_what_it_does_not_need(query: str) -> None:
    assert shape_of(query, "full").name == "full"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT rand() AS r FROM upstream", "rand, which is not deterministic, which no view can have"),
        ("SELECT my_udf(id) AS r FROM upstream l JOIN upstream r USING (id)", "not a built-in function of Spark"),
        ("SELECT rollup(a) AS r FROM upstream", "in another place than GROUP BY|syntax error"),
        ("SELECT id FROM upstream l JOIN upstream r ON using(l.id)", "USING|syntax error"),
        ("SELECT id FROM upstream UNION SELECT id FROM other", "reads 'other'; it may read upstream only"),
        ("SELECT id FROM upstream UNION SELECT id FROM parquet.`/secret`", "it may read upstream only"),
        ("SELECT l.id FROM upstream l, upstream r", "in another place than after FROM and JOIN"),
        (
            "SELECT l.id FROM upstream l JOIN upstream VERSION AS OF 3 r ON l.id = r.id",
            "without a version|syntax error",
        ),
        ("SELECT a FROM upstream AS u(a) UNION SELECT b FROM upstream", "without columns"),
        ("SELECT id FROM upstream ORDER BY id LIMIT 3", "ORDER BY, which no view can have; sort the view"),
        ("(SELECT id FROM upstream) UNION (SELECT id FROM upstream LIMIT 3)", "LIMIT, .* row_number"),
        ("SELECT id FROM upstream WHERE id IN (SELECT max(id) FROM upstream)", "subqueries in expressions"),
        ("SELECT (SELECT max(id) FROM upstream) AS m FROM upstream", "subqueries in expressions"),
        (
            "WITH upstream AS (SELECT id FROM upstream) SELECT a.id FROM upstream a JOIN upstream b",
            "hides the upstream",
        ),
        ("SELECT current_date FROM upstream a JOIN upstream b USING (id)", "current_date, which is not deterministic"),
        ("SELECT user FROM upstream a JOIN upstream b USING (id)", "user, which"),
        ("SELECT localtime AS t FROM upstream a JOIN upstream b USING (id)", "localtime, which"),
        ("SELECT id FROM upstream WHERE join(id) UNION SELECT id FROM upstream", "join, which is not a built|syntax"),
        ("SELECT union(id) AS u FROM upstream UNION SELECT id FROM upstream", "union, which is not a built|syntax"),
        ("SELECT IDENTIFIER('current_date') FROM upstream a JOIN upstream b USING (id)", "current_date, which is not"),
        ("SELECT CAST('today' AS DATE) AS d FROM upstream a JOIN upstream b USING (id)", "changes from day to day"),
        (
            "SELECT a.id FROM upstream a JOIN upstream TABLESAMPLE (5 PERCENT) b USING (id)",
            "plain upstream|TABLESAMPLE",
        ),
        ("SELECT id FROM upstream; DROP TABLE x", "one SELECT|syntax error"),
        ("SELECT 1 AS one", "does not read upstream"),
        ("DELETE FROM upstream", "one SELECT|syntax error"),
    ],
)
def test_what_may_change_by_itself_or_reads_anything_else_is_refused(query: str, said: str) -> None:
    """I6, as strictly as for the other shapes; no other refresh is advised."""
    with pytest.raises(InvalidJobError, match=said) as refused:
        shape_of(query, "full")
    assert WAY_OUT not in str(refused.value)


def test_each_reading_of_the_upstream_is_replaced_and_the_rest_is_the_users_text() -> None:
    query = (
        "SELECT upstream.id, 'FROM upstream' AS t FROM upstream FULL  JOIN Upstream AS r ON upstream.id = r.upstream"
    )
    assert check_full_query(query).render("rows", ()) == (
        "SELECT upstream.id, 'FROM upstream' AS t FROM `rows` AS `upstream` FULL  JOIN `rows` AS r "
        "ON upstream.id = r.upstream"
    )


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("SELECT count(*) AS n, max(a) AS m FROM upstream", ["a"]),
        ("SELECT l.a FROM upstream l JOIN upstream r ON l.id = r.a", ["id", "a"]),
        ("SELECT count(*) AS n FROM upstream l NATURAL JOIN upstream r", ["id", "a", "b"]),
        ("SELECT l.* FROM upstream l JOIN upstream r USING (id)", ["id", "a", "b"]),
        ("SELECT * FROM (SELECT a, id FROM upstream) PIVOT (max(id) FOR a IN (1, 2))", ["id", "a", "b"]),
        ("SELECT IDENTIFIER('b') AS x FROM upstream l JOIN upstream r USING (id)", ["id", "b"]),
    ],
)
def test_a_column_is_used_if_the_query_may_depend_on_it(query: str, used: list[str]) -> None:
    """A column that is left out would change the rows of NATURAL joins, stars and PIVOT."""
    assert list(check_full_query(query).columns_of(["id", "a", "b"])) == used


def test_values_of_several_rows_may_differ_in_their_last_digits() -> None:
    assert check_full_query("SELECT sum(x) AS s FROM upstream").inexact(["s"]) == {"s"}
    assert not check_full_query("SELECT x FROM upstream").inexact(["x"])
