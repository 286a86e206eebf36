"""Which queries are row-level, and which clauses are not."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.row.query import check_query
from tests.unit.shapes.row.projections import PROJECTIONS


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_an_expression_of_one_row_is_accepted(projection):
    query = check_query(f"SELECT {projection} FROM upstream")
    assert query.text == f"SELECT {projection} FROM upstream"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM upstream",
        "select id from upstream",
        "SELECT id FROM UPSTREAM",
        "SELECT id FROM `upstream`",
        "SELECT ALL id FROM upstream",
        "SELECT id FROM upstream WHERE id > 1",
        "SELECT id FROM upstream WHERE id IN (1, 2) AND (status = 'a' OR NOT paid)",
        "SELECT u.id FROM upstream u",
        "SELECT u.id FROM upstream AS u WHERE u.id IS NOT DISTINCT FROM u.old",
        "SELECT `o'x`.id FROM upstream AS `o'x`",
        "  SELECT id FROM upstream  ;  ",
        "\n-- what we sell\nSELECT id -- the key\nFROM /* the */ upstream -- all\nWHERE id > 1 -- some",
        "SELECT/**/id/**/FROM/**/upstream/**/WHERE/**/id>1",
        "SELECT '😀', ünï FROM upstream WHERE name = '日本'",
        "SELECT id FROM upstream WHERE " + " AND ".join(["id > 1"] * 2000),
        "SELECT upper('now') FROM upstream WHERE txt <> 'today' AND txt IN ('10:15', 'yesterday')",
    ],
)
def test_a_filtered_projection_is_accepted_however_it_is_written(text):
    assert check_query(text).render("r", ["id"])


WINDOWS = [
    "row_number() OVER (ORDER BY id)",
    "sum(a) OVER (PARTITION BY b)",
    "lag(a) OVER w",
    "count(*) OVER ()",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY a)",
]


@pytest.mark.parametrize("expression", WINDOWS)
def test_a_window_function_is_refused(expression):
    with pytest.raises(InvalidJobError, match="window functions"):
        check_query(f"SELECT {expression} FROM upstream")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT DISTINCT id FROM upstream", "DISTINCT"),
        ("SELECT id FROM upstream GROUP BY id", "GROUP BY"),
        ("SELECT id FROM upstream GROUP BY ALL", "GROUP BY"),
        ("SELECT id FROM upstream HAVING id > 1", "HAVING"),
        ("SELECT id FROM upstream QUALIFY id = 1", "QUALIFY"),
        ("SELECT id FROM upstream WINDOW w AS (ORDER BY id)", "WINDOW"),
        ("SELECT id FROM upstream ORDER BY id", "ORDER BY"),
        ("SELECT id FROM upstream SORT BY id", "SORT BY"),
        ("SELECT id FROM upstream CLUSTER BY id", "CLUSTER BY"),
        ("SELECT id FROM upstream DISTRIBUTE BY id", "DISTRIBUTE BY"),
        ("SELECT id FROM upstream LIMIT 5", "LIMIT"),
        ("SELECT id FROM upstream LIMIT ALL", "LIMIT"),
        ("SELECT id FROM upstream OFFSET 5", "OFFSET"),
        ("SELECT id FROM upstream LATERAL VIEW explode(a) t AS x", "LATERAL VIEW"),
        ("SELECT id FROM upstream LATERAL VIEW OUTER explode(a) AS x", "LATERAL VIEW"),
        ("SELECT id FROM upstream, upstream b", "joins"),
        ("SELECT id FROM upstream JOIN other USING (id)", "joins"),
        ("SELECT id FROM upstream NATURAL JOIN other", "joins"),
        ("SELECT id FROM upstream CROSS JOIN upstream", "joins"),
        ("SELECT id FROM upstream LEFT ANTI JOIN other USING (id)", "joins"),
        ("SELECT (SELECT 1)", "FROM upstream"),
        ("SELECT (SELECT 1) FROM upstream", "subqueries"),
        ("SELECT id FROM upstream WHERE id IN (SELECT 1)", "subqueries"),
        ("SELECT id FROM upstream WHERE EXISTS (SELECT 1)", "subqueries"),
        ("SELECT id FROM upstream WHERE id > (SELECT max(id) FROM upstream)", "subqueries"),
        ("WITH t AS (SELECT 1) SELECT id FROM upstream", "WITH t, which is never read"),
        ("WITH a AS (SELECT id FROM upstream), b AS (SELECT 1) SELECT id FROM a", "WITH b, which is never read"),
        ("WITH t(x) AS (SELECT id FROM upstream) SELECT x FROM t", "WITH name AS"),
        ("WITH RECURSIVE t AS (SELECT id FROM upstream) SELECT id FROM t", "WITH name AS"),
        ("WITH upstream AS (SELECT 1 AS id) SELECT id FROM upstream", "FROM upstream"),
        ("WITH t AS (SELECT DISTINCT id FROM upstream) SELECT id FROM t", "DISTINCT"),
        ("WITH t AS (SELECT id FROM upstream) SELECT t.id FROM t JOIN t AS u USING (id)", "joins"),
        ("SELECT id FROM (SELECT id, rand() AS x FROM upstream) WHERE x < 0.5", "rand"),
        ("SELECT max(id) FROM (SELECT id FROM upstream)", "the aggregate max"),
        ("SELECT id FROM (SELECT id FROM upstream LIMIT 1)", "LIMIT"),
        ("SELECT struct(*) AS s FROM (SELECT id FROM upstream)", "name the columns"),
        ("FROM upstream |> SELECT hash(*) AS h", "name the columns"),
        ("FROM upstream |> LIMIT 1", "operator LIMIT"),
        ("FROM upstream |> UNION ALL (SELECT 1)", "operator UNION"),
        ("FROM upstream |> AGGREGATE (count(*)) GROUP BY id", "operator AGGREGATE"),
        ("FROM upstream |> JOIN other USING (id)", "operator JOIN"),
        ("FROM upstream |> EXTEND (SELECT 1) AS x", "subqueries"),
        ("FROM upstream |> WHERE id IN (SELECT 1)", "subqueries"),
        ("FROM upstream |> SELECT DISTINCT id", "DISTINCT"),
        ("FROM upstream |> SELECT id FROM upstream", "more than expressions"),
        ("FROM upstream |> EXTEND max(id) AS m", "the aggregate max"),
        ("FROM upstream |> SET id = explode(items)", "several rows"),
        ("SELECT id FROM upstream WHERE id = :x", "parameters"),
        ("SELECT id FROM upstream WHERE id = ?", "parameters"),
        ("SELECT _metadata.file_path FROM upstream", "_metadata"),
        ("SELECT upstream._METADATA FROM upstream", "_metadata"),
    ],
)
def test_a_clause_that_looks_beyond_one_row_is_refused(text, said):
    with pytest.raises(InvalidJobError, match="must be row-level") as caught:
        check_query(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp 'now'",
        "date 'today'",
        "CAST('now' AS timestamp)",
        "'tomorrow'::date",
        "to_date('today')",
        "timestamp_ntz 'now UTC'",
        "CAST(('10:15') AS timestamp)",
        "timestamp 'T10:15'",
        "to_timestamp('1:15:00')",
        r"date 'tod\u0061y'",
        "date r'today'",
        'timestamp "now"',
    ],
)
def test_the_clock_in_a_literal_is_refused(expression):
    """I2: ``date 'today'`` is another day when the epoch runs again."""
    with pytest.raises(InvalidJobError, match="changes from day to day"):
        check_query(f"SELECT id, {expression} AS x FROM upstream")


def test_a_script_transformation_is_refused():
    with pytest.raises(InvalidJobError):
        check_query("SELECT TRANSFORM(id) USING 'cat' AS (id) FROM upstream")


def test_a_comment_after_the_closing_semicolon_is_harmless():
    assert check_query("SELECT id FROM upstream; -- that is all").render("r", ["id"])


@pytest.mark.parametrize("name", ["user", "current_time", "localtimestamp"])
def test_a_function_without_parentheses_is_refused_unless_a_column_has_its_name(name):
    """I2: Spark reads such a name as a function if the upstream has no such column."""
    query = check_query(f"SELECT id, {name} FROM upstream")
    with pytest.raises(InvalidJobError, match=f"{name}, which is not deterministic"):
        query.require_names(["id"])
    query.require_names(["id", name.upper()])
    check_query(f"SELECT upstream.{name} FROM upstream").require_names(["id"])
