"""The texts that run: each is the user's own, cut at positions of tokens."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.grouping_query import Technique
from airflow_backfill_provider.shapes.group.query import check_group_query

JOIN = "LEFT SEMI JOIN `t` AS backfill_touched ON"


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("query", "whole", "units", "sliced"),
    [
        (
            "SELECT c, count(*) AS n FROM upstream WHERE x > 0 GROUP BY c",
            "SELECT c, count(*) AS n FROM `r` AS `upstream` WHERE x > 0 GROUP BY c",
            "SELECT (c) AS `u` FROM `r` AS `upstream` WHERE x > 0",
            f"SELECT c, count(*) AS n FROM `r` AS `upstream` {JOIN} (c) <=> backfill_touched.`u` WHERE x > "
            f"0 GROUP BY c",
        ),
        (
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p FROM upstream AS o GROUP BY o.c HAVING 1 < 2",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p , (o.c) AS `__unit_0` FROM `r` AS o "
            "GROUP BY o.c HAVING 1 < 2",
            "SELECT (o.c) AS `u` FROM `r` AS o",
            "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p , (o.c) AS `__unit_0` FROM `r` AS o "
            f"{JOIN} (o.c) <=> backfill_touched.`u` GROUP BY o.c HAVING 1 < 2",
        ),
        (
            "WITH a AS (SELECT c, x FROM upstream) SELECT m FROM (SELECT c, max(x) AS m FROM a GROUP BY c) WHERE m > 0",
            "WITH a AS (SELECT c, x FROM `r` AS `upstream`) SELECT m , `c` AS `__unit_0` FROM "
            "(SELECT c, max(x) AS m FROM a GROUP BY c) WHERE m > 0",
            "SELECT (c) AS `u` FROM (SELECT c, x FROM `r` AS `upstream`) AS `a`",
            "WITH a AS (SELECT c, x FROM `r` AS `upstream`) SELECT m , `c` AS `__unit_0` FROM (SELECT c, max(x) AS m "
            f"FROM a {JOIN} (c) <=> backfill_touched.`u` GROUP BY c) WHERE m > 0",
        ),
        (
            "FROM upstream |> WHERE x > 1 |> EXTEND rank() OVER (PARTITION BY lower(c) ORDER BY x) AS p |> DROP c",
            "FROM `r` AS `upstream` |> WHERE x > 1 |> EXTEND (lower(c)) AS `__unit_0` "
            "|> EXTEND rank() OVER (PARTITION BY lower(c) ORDER BY x) AS p |> DROP c",
            "FROM `r` AS `upstream` |> WHERE x > 1 |> SELECT (lower(c)) AS `u`",
            f"FROM `r` AS `upstream` |> WHERE x > 1 |> {JOIN} (lower(c)) <=> backfill_touched.`u` |> EXTEND (lower(c)) "
            "AS `__unit_0` |> EXTEND rank() OVER (PARTITION BY lower(c) ORDER BY x) AS p |> DROP c",
        ),
        (
            "FROM (SELECT c, x FROM upstream) |> AGGREGATE sum(x) AS s GROUP BY c |> SELECT s",
            "FROM (SELECT c, x FROM `r` AS `upstream`) |> AGGREGATE sum(x) AS s GROUP BY c |> SELECT s , "
            "`c` AS `__unit_0`",
            "FROM (SELECT c, x FROM `r` AS `upstream`) |> SELECT (c) AS `u`",
            f"FROM (SELECT c, x FROM `r` AS `upstream`) |> {JOIN} (c) <=> backfill_touched.`u` "
            "|> AGGREGATE sum(x) AS s GROUP BY c |> SELECT s , `c` AS `__unit_0`",
        ),
    ],
)
def test_the_texts_of_a_query(query, whole, units, sliced):
    """The query itself, the units of rows, and the query over the rows of some units."""
    found = check_group_query(query)
    assert plain(found.render("r", ["id"])) == whole
    assert plain(found.render_units("r", ["u"], ())) == units
    assert plain(found.render_slice("r", "t", ["u"], ())) == sliced


@pytest.mark.parametrize(
    ("query", "whole"),
    [
        (
            "SELECT max(x) AS m FROM upstream GROUP BY lower(c)",
            "SELECT max(x) AS m , (lower(c)) AS `__unit_0`, count(*) AS `__rows` FROM `r` AS `upstream` "
            "GROUP BY lower(c)",
        ),
        (
            "SELECT DISTINCT c, x > 1 AS big FROM upstream WHERE x IS DISTINCT FROM 3",
            "SELECT c, x > 1 AS big , count(*) AS `__rows` FROM `r` AS `upstream` WHERE x IS DISTINCT FROM 3 "
            "GROUP BY ALL",
        ),
    ],
)
def test_the_state_of_groups_is_in_columns_of_the_query(query: str, whole: str) -> None:
    """DISTINCT rows become groups, so that they have a number of rows."""
    found = check_group_query(query).with_state({"__rows": "count(*)"})
    assert plain(found.render("r", (), ())) == whole
    assert found.technique is Technique.FOLD


def test_the_rows_that_a_step_groups_have_any_columns() -> None:
    found = check_group_query("SELECT count(*) AS n FROM (SELECT c, x + 1 AS y FROM upstream) p WHERE y > 0 GROUP BY c")
    assert plain(found.render_rows("r", "*, y AS u")) == (
        "SELECT *, y AS u FROM (SELECT c, x + 1 AS y FROM `r` AS `upstream`) p WHERE y > 0"
    )
