"""What the units of a query are, and which hidden columns hold them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.group.query import check_group_query

H = "__unit_0"


def units(query: str) -> list[tuple[str, str]]:
    """Return the text and the view's column of each unit expression."""
    query_of = check_group_query(query)
    found = query_of.units_with(())
    return [(term.text(query_of.text), name) for term, name in zip(found.terms, found.outputs, strict=True)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT c, count(*) AS n FROM upstream GROUP BY c", [("c", "c")]),
        ("SELECT c AS k, sum(x) FROM upstream u GROUP BY u.`C`", [("u.`C`", "k")]),
        ("SELECT count(*) AS n FROM upstream GROUP BY c", [("c", H)]),
        ("SELECT lower(c) AS k, count(*) FROM upstream GROUP BY LOWER( c )", [("LOWER( c )", "k")]),
        ("SELECT lower('A') AS k, count(*) FROM upstream GROUP BY lower('a')", [("lower('a')", H)]),
        ("SELECT date_trunc('month', t) AS m, count(*) FROM upstream GROUP BY m", [("date_trunc('month', t)", "m")]),
        ("SELECT (a + b) k, d, count(*) FROM upstream GROUP BY 2, 1", [("d", "d"), ("(a + b)", "k")]),
        ("SELECT a, b % 2 AS odd, max(x) + 1 AS m FROM upstream GROUP BY ALL", [("a", "a"), ("b % 2", "odd")]),
        ("SELECT a, a AS again, count(*) FROM upstream GROUP BY a, (a)", [("a", "a")]),
        ("SELECT DISTINCT a, b + 1 AS c FROM upstream", [("a", "a"), ("b + 1", "c")]),
        ("SELECT DISTINCT a FROM upstream GROUP BY a, b", [("a", "a")]),
        ("SELECT count(*) AS n FROM upstream", []),
        ("SELECT sum(x) FILTER (WHERE y > 0) AS s, count(DISTINCT z) AS d FROM upstream WHERE x > 1", []),
        ("SELECT any(b) AS n FROM upstream", []),
        ("SELECT *, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM upstream", [("a", "a")]),
        (
            "SELECT b, rank() OVER w AS r FROM upstream WINDOW w AS (PARTITION BY lower(a) ORDER BY b)",
            [("lower(a)", H)],
        ),
        ("SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY a, b ORDER BY x) = 1", [("a", "a"), ("b", "b")]),
        (
            "SELECT sum(x) OVER (PARTITION BY a, b) AS s, max(x) OVER (PARTITION BY b) AS m FROM upstream",
            [("b", H)],
        ),
        ("SELECT a, b, rank() OVER (PARTITION BY a ORDER BY sum(x)) AS r FROM upstream GROUP BY a, b", [("a", "a")]),
        ("SELECT m FROM (SELECT c, max(x) AS m FROM upstream GROUP BY c)", [("c", H)]),
        ("SELECT k FROM (SELECT lower(c) AS k, max(x) AS m FROM upstream GROUP BY lower(c)) t", [("lower(c)", "k")]),
        (
            "WITH s AS (SELECT c, d, sum(x) AS s FROM upstream GROUP BY c, d) SELECT c AS e, max(s) AS m "
            "FROM s GROUP BY c",
            [("c", "e")],
        ),
        (
            "SELECT * FROM (SELECT a, row_number() OVER (PARTITION BY a ORDER BY id) AS n FROM upstream) WHERE n = 1",
            [("a", "a")],
        ),
        ("FROM upstream |> AGGREGATE sum(x) AS s GROUP BY c, lower(d) AS e", [("c", "c"), ("lower(d)", "e")]),
        ("FROM upstream |> AGGREGATE sum(x) AS s", []),
        ("FROM upstream |> AGGREGATE GROUP BY c", [("c", "c")]),
        ("FROM upstream |> AGGREGATE sum(x) AS s GROUP BY c |> SET c = 1", [("c", H)]),
        ("FROM upstream |> AGGREGATE sum(x) AS s GROUP BY c |> WHERE s > 1 |> SELECT s", [("c", H)]),
    ],
)
def test_units_are_what_all_groupings_and_windows_divide_by(query, expected):
    assert units(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n, count(*) AS m FROM (SELECT c, count(*) AS n FROM upstream GROUP BY c) GROUP BY n",
        "SELECT sum(n) AS m FROM (SELECT c, count(*) AS n FROM upstream GROUP BY c)",
        "SELECT sum(x) OVER (PARTITION BY a) AS s, max(x) OVER (PARTITION BY b) AS m FROM upstream",
        "SELECT a, rank() OVER (PARTITION BY d ORDER BY a) AS r FROM (SELECT a, lower(b) AS d, max(x) FROM upstream "
        "GROUP BY a, b)",
    ],
)
def test_steps_that_divide_by_nothing_in_common_are_refused_with_the_chain_to_make(query):
    with pytest.raises(InvalidJobError, match="nothing in common.*; make a view of the inner SELECT, and a second job"):
        check_group_query(query)


def test_a_hidden_column_has_a_name_that_nothing_else_has():
    query = check_group_query("SELECT sum(__unit_0) AS s FROM upstream GROUP BY c")
    assert query.units_with(["___unit_0"]).outputs == ("____unit_0",)


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT u.c, count(*) AS n FROM upstream u WHERE x > 1 GROUP BY u.c", ("c", "x")),
        ("SELECT count(*) AS n FROM upstream", ()),
        ("FROM upstream |> WHERE x > 1 |> AGGREGATE count(*) AS n GROUP BY c", ("c", "x")),
        ("SELECT c, max(x) AS m FROM (SELECT * EXCEPT (y) FROM upstream) GROUP BY c", ("c", "x", "y")),
        ("SELECT *, rank() OVER (PARTITION BY c ORDER BY x) AS r FROM upstream", ("id", "c", "x", "y")),
        ("SELECT c, max(s) AS m FROM (SELECT c, struct(*) AS s FROM upstream) GROUP BY c", ("id", "c", "x", "y")),
        ("FROM upstream |> EXTEND rank() OVER (PARTITION BY c ORDER BY x) AS r", ("id", "c", "x", "y")),
    ],
)
def test_only_the_columns_of_the_query_are_read(query, columns):
    """A narrow query over a wide table moves narrow rows, also if a star stands before the columns' names."""
    found = check_group_query(query)
    assert found.columns_of(["id", "c", "x", "y"]) == found.old_columns(["id", "c", "x", "y"]) == columns
