"""Results that depend on the order of rows stay refused, also if the view is computed whole."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.full.query import check_full_query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, row_number() OVER (ORDER BY amount, id) AS n FROM upstream",
        "SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM upstream",
        "SELECT a, rank() OVER (ORDER BY count(*)) AS n FROM upstream GROUP BY ROLLUP (a)",
        "SELECT l.rows, max(r.id) AS m FROM upstream l JOIN upstream r USING (id) GROUP BY l.rows",
    ],
)
def test_an_order_that_ends_with_what_identifies_a_row_is_accepted(query: str) -> None:
    check_full_query(query).require_orders(["id"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT id, row_number() OVER (ORDER BY amount) AS n FROM upstream", "which no view can have; end its ORDER"),
        ("SELECT a, first(b) AS f FROM upstream GROUP BY a", "first, whose result depends on the order"),
        ("SELECT a, first(b) AS f FROM upstream GROUP BY ROLLUP (a)", "first, whose result may depend .* ends with id"),
        # The rows of such a step are not identified by what it groups by, or by the key.
        ("SELECT id, max_by(a, b) AS m FROM upstream GROUP BY id, b GROUPING SETS ((b))", "max_by"),
        ("SELECT id, explode(t) AS x, row_number() OVER (ORDER BY id) AS n FROM upstream", "row_number"),
        ("SELECT id, row_number() OVER (ORDER BY id) AS n FROM upstream LATERAL VIEW explode(t) AS x", "row_number"),
        ("SELECT l.id, lag(l.id) OVER (ORDER BY l.id) AS b FROM upstream l JOIN upstream r ON l.a = r.a", "lag"),
        (
            "SELECT l.id, sum(l.a) OVER (ORDER BY l.id ROWS 2 PRECEDING) AS b FROM upstream l JOIN upstream r",
            "a frame of ROWS",
        ),
        ("SELECT collect_list(a) AS l FROM upstream UNION ALL SELECT collect_set(a) FROM upstream", "collect_list"),
    ],
)
def test_an_order_in_which_rows_may_be_equal_is_refused(query: str, said: str) -> None:
    with pytest.raises(InvalidJobError, match=said):
        check_full_query(query).require_orders(["id"])
