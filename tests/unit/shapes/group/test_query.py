"""What a query of groups may not have, each with what to write instead."""

from __future__ import annotations

import re

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import shape_of
from airflow_backfill_provider.shapes.group.query import check_group_query
from tests.builders import job_fields

REFUSED = [
    (
        "SELECT rank() OVER (ORDER BY x) AS r FROM upstream",
        r"rank OVER a window without PARTITION BY.*PARTITION BY …\)",
    ),
    ("SELECT sum(x) OVER () AS r FROM upstream", "sum OVER a window without PARTITION BY"),
    ("SELECT sum(x) OVER w AS r FROM upstream WINDOW w AS (ORDER BY x)", "sum OVER a window without PARTITION BY"),
    ("SELECT sum(x) OVER w AS r FROM upstream", "the window w, which it does not define"),
    ("SELECT sum(x) OVER (DISTRIBUTE BY c SORT BY x) AS r FROM upstream", "window"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY c WITH ROLLUP", "ROLLUP.*; make one job for each list"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY ROLLUP(c, d)", "ROLLUP.*; make one job"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY c, CUBE(d)", "CUBE.*; make one job"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY GROUPING SETS ((c), ())", "GROUPING SETS.*; make one job"),
    ("SELECT c, grouping(c) AS g FROM upstream GROUP BY c", "grouping, which.*; make one job"),
    ("SELECT count(*) AS n FROM upstream HAVING count(*) > 1", "HAVING without GROUP BY.*; filter the view's one row"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY c ORDER BY n", "ORDER BY.*; sort the view when you read it"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY c LIMIT 3", "LIMIT.*; number the rows with rank"),
    ("SELECT c, (SELECT max(x) FROM upstream) AS m, count(*) FROM upstream GROUP BY c", "subqueries.*; .* OVER"),
    (
        "SELECT c, count(*) AS n FROM upstream u WHERE x = (SELECT max(v.x) FROM upstream v WHERE v.c = "
        "u.c) GROUP BY c",
        "subqueries.*a window such as max",
    ),
    ("SELECT c, sum(rand()) AS n FROM upstream GROUP BY c", "rand, which is not deterministic"),
    (
        "SELECT c, current_date() AS d, count(*) AS n FROM upstream GROUP BY c",
        "current_date, which is not deterministic",
    ),
    ("SELECT c, percentile_approx(x, 0.5) AS n FROM upstream GROUP BY c", r"percentile_approx.*; write percentile\("),
    ("SELECT c, approx_percentile(x, 0.5) AS n FROM upstream GROUP BY c", r"; write percentile\("),
    ("SELECT histogram_numeric(x, 5) AS n FROM upstream GROUP BY c", "width_bucket"),
    ("SELECT c, my_sum(x) AS n FROM upstream GROUP BY c", "my_sum, which is not a built-in function"),
    (
        "SELECT window(t, '1 hour') AS w, count(*) AS n FROM upstream GROUP BY window(t, '1 hour')",
        "window.*time_bucket",
    ),
    ("SELECT explode(a) AS e, count(*) AS n FROM upstream GROUP BY 1", "explode, which returns several rows for one"),
    ("SELECT DISTINCT * FROM upstream", r"SELECT DISTINCT \*.*; name the columns"),
    ("SELECT c, count(*) AS n FROM upstream GROUP BY 3", "GROUP BY 3, which is the number of no expression"),
    ("SELECT *, count(*) AS n FROM upstream GROUP BY 1", "the number of no expression"),
    ("SELECT *, sum(x) OVER (PARTITION BY c) AS n FROM upstream GROUP BY ALL", "GROUP BY ALL with windows"),
    ("FROM upstream |> AGGREGATE count(*) AS n GROUP BY lower(c)", "without an alias after GROUP BY in |> AGGREGATE"),
    ("FROM upstream |> AGGREGATE count(*) AS n GROUP BY 1", "a number after GROUP BY"),
    ("FROM upstream |> AGGREGATE count(*) AS n |> PIVOT (max(n) FOR c IN (1))", "pipe operator PIVOT|joins|PIVOT"),
    ("SELECT c, count(u.*) AS n FROM (SELECT c FROM upstream) u GROUP BY c", r"\* inside an expression"),
    ("SELECT DISTINCT c, lower(d) FROM upstream", "select that expression, with an alias"),
]

ONE_UNIT = "SELECT count(*) AS n FROM upstream"


def test_groups_over_a_join_need_tables_with_names():
    """Another shape takes them."""
    query = "SELECT c, count(*) AS n FROM upstream JOIN other USING (c) GROUP BY c"
    with pytest.raises(InvalidJobError, match="JOIN.*; join nothing here; select from upstream alone"):
        check_group_query(query)
    with pytest.raises(InvalidJobError, match="upstream: the query joins, so name its tables under upstreams"):
        BackfillJob(**job_fields(query=query))


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_a_construct_that_groups_cannot_have_is_refused_by_name(query, said):
    """I6: also as a whole job, whose refusal is this shape's and not that of rows."""
    with pytest.raises(InvalidJobError, match=said):
        check_group_query(query)
    with pytest.raises(InvalidJobError, match=said):
        BackfillJob(**job_fields(query=query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT c FROM upstream",
        "SELECT id, x + 1 AS y FROM upstream WHERE c = ANY ('a', 'b')",
        "SELECT id FROM upstream WHERE a IS DISTINCT FROM b",
    ],
)
def test_a_query_of_rows_keeps_its_shape(query):
    with pytest.raises(InvalidJobError, match="no group and no window"):
        check_group_query(query.replace("= ANY ('a', 'b')", "LIKE ANY ('a', 'b')"))
    assert shape_of(query.replace("= ANY ('a', 'b')", "LIKE ANY ('a', 'b')")).name == "row"


def test_an_alias_that_is_also_a_column_is_refused_where_it_is_grouped_by():
    """Spark takes the column, and readers the alias."""
    query = check_group_query("SELECT lower(c) AS k, count(*) AS n FROM upstream GROUP BY k")
    query.require_names(["id", "c"])
    with pytest.raises(InvalidJobError, match="GROUP BY k, which is a column and the alias of another expression"):
        query.require_names(["id", "c", "K"])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"strategy": "no_shuffle"},
            "no_shuffle cannot fill a view of shape group; use auto, or arrangement, snapshot",
        ),
        (
            {"strategy": "snapshot", "visibility": "every_epoch"},
            "visibility: a view of shape group has on_finish only under strategy snapshot; leave visibility out, or "
            "use strategy arrangement",
        ),
        ({"strategy": "snapshot", "parallelism": 2}, "parallelism: 2 task runs cannot write a view of shape group "),
        (
            {"strategy": "snapshot", "rate_limit": 10},
            "rate_limit: a view of shape group is filled under strategy snapshot by one epoch that reads all of "
            "history; leave rate_limit out, and pause the job to hold it back, or use strategy arrangement",
        ),
        ({"strategy": "snapshot", "rate_limit": "auto"}, "rate_limit: a view of shape group"),
        ({"strategy": "snapshot", "max_rows_per_second": 10}, "max_rows_per_second: a view of shape group"),
        ({"query": ONE_UNIT, "strategy": "arrangement"}, "strategy: .* the query aggregates all rows as one; use"),
        ({"query": ONE_UNIT, "rate_limit": 10}, "rate_limit: a view of shape group is filled by one epoch"),
        ({"query": ONE_UNIT, "visibility": "every_epoch"}, "group has on_finish only; leave visibility out$"),
        ({"restrict_to": {"vnodes": [1]}}, "restrict_to.vnodes: a group has rows of several vnodes"),
        (
            {"query": "SELECT row_number() OVER (PARTITION BY c ORDER BY x) AS r FROM upstream"},
            "row_number OVER an order in which rows may be equal, .*such as id",
        ),
    ],
)
def test_a_job_of_groups_is_refused_what_its_shape_cannot_do(fields, said):
    """What a strategy cannot do with groups, and no strategy with one group, is said when a job is defined."""
    with pytest.raises(InvalidJobError, match=said):
        BackfillJob(**job_fields(**{"query": "SELECT c, count(*) AS n FROM upstream GROUP BY c", **fields}))


@pytest.mark.parametrize("strategy", ["auto", "arrangement"])
@pytest.mark.parametrize(
    "fields", [{"visibility": "every_epoch"}, {"parallelism": 2}, {"rate_limit": 10}, {"max_rows_per_second": 10}]
)
def test_a_job_whose_groups_may_be_read_one_by_one_has_all_settings(strategy, fields):
    """Also if the distribution key is no column of the key: a group has rows of one vnode."""
    query = "SELECT c, count(*) AS n FROM upstream GROUP BY c"
    upstream = {**job_fields()["upstream"], "distribution_key": ["c"]}
    job = BackfillJob(**job_fields(query=query, strategy=strategy, upstream=upstream, **fields))
    assert job.visibility == fields.get("visibility", "on_finish")


@pytest.mark.parametrize(
    ("text", "inexact"),
    [
        ("SELECT status, sum(price) AS total FROM upstream GROUP BY status", {"total"}),
        ("SELECT *, avg(price) OVER (PARTITION BY status) AS total FROM upstream", {"total"}),
        ("SELECT *, row_number() OVER (PARTITION BY status ORDER BY id) AS total FROM upstream", set()),
    ],
)
def test_only_a_floating_point_number_that_several_rows_give_may_differ_in_its_last_digits(text, inexact):
    assert check_group_query(text).inexact(["total"]) == inexact


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT c, sum(x) AS s FROM upstream GROUP BY c", "fold: .*; if the types of its aggregates allow it"),
        (
            "SELECT c, count(DISTINCT x) AS n FROM upstream GROUP BY c",
            "slice: .* because count\\(DISTINCT x\\) cannot be",
        ),
        ("SELECT c, max(DISTINCT x) AS n FROM upstream GROUP BY c", "fold: .*; if the types"),
        ("SELECT c, median(x) AS m FROM upstream GROUP BY c", "slice: .* because median\\(x\\) cannot be folded"),
        ("SELECT c, sum(x) AS s FROM upstream GROUP BY c HAVING sum(x) > 1", "slice: .* HAVING cannot be folded"),
        ("SELECT c || sum(x) AS s FROM upstream GROUP BY c", "slice: .* cannot be folded: c is neither"),
    ],
)
def test_a_plan_tells_the_technique_and_its_reason(query: str, said: str) -> None:
    """Before creation, as far as the text tells it."""
    found = check_group_query(query).upkeep(created=False)
    assert re.match(said, f"{found.technique}: {found.reason}")


def test_a_created_job_has_the_technique_of_its_settings() -> None:
    query = check_group_query("SELECT c, sum(x) AS s FROM upstream GROUP BY c")
    assert query.upkeep(created=True).technique == "slice"
    assert query.with_state({"__rows": "count(*)"}).upkeep(created=True).technique == "fold"
