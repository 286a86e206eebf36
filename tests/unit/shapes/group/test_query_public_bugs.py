"""Bugs that other engines had in views of groups, where the right end is a refusal; the others need Spark."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.group.query import check_group_query

MOST = "(SELECT max(total) FROM upstream)"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM upstream",
        "SELECT * FROM upstream QUALIFY row_number() OVER (PARTITION BY a ORDER BY b) = 1",
        "SELECT a, b FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM upstream) WHERE r = 1",
        "WITH r AS (SELECT *, row_number() OVER w AS n FROM upstream WINDOW w AS (PARTITION BY a ORDER BY b)) "
        "SELECT a, b FROM r WHERE n = 1",
        "FROM upstream |> EXTEND row_number() OVER (PARTITION BY a ORDER BY b) AS r |> WHERE r = 1",
    ],
)
def test_of_rows_that_are_equal_in_the_order_none_is_chosen_by_chance(query: str) -> None:
    """risingwave 12282: the rows (1, 1), (1, 0), (1, 0) have no first one by b alone."""
    with pytest.raises(InvalidJobError, match="row_number OVER an order in which rows may be equal.*such as id"):
        check_group_query(query).require_orders(["id"])


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT shop, max(total) AS m FROM upstream WHERE total = {MOST} GROUP BY shop",
        f"SELECT shop, sum(total) AS s FROM upstream GROUP BY shop HAVING sum(total) = {MOST}",
        f"SELECT shop, sum(total) = {MOST} AS is_most FROM upstream GROUP BY shop",
        f"SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY shop ORDER BY total) = {MOST}",
        "WITH revenue AS (SELECT shop, sum(total) AS total FROM upstream GROUP BY shop) "
        "SELECT shop, max(total) AS m FROM revenue WHERE total = (SELECT max(total) FROM revenue) GROUP BY shop",
        f"FROM upstream |> WHERE total = {MOST} |> AGGREGATE count(*) AS n GROUP BY shop",
        "SELECT shop, count(*) AS n FROM upstream WHERE total >= ALL (SELECT total FROM upstream) GROUP BY shop",
        "SELECT shop, count(*) AS n FROM upstream WHERE total IN (SELECT max(total) FROM upstream) GROUP BY shop",
    ],
)
def test_a_value_of_all_rows_is_refused_in_every_place(query: str) -> None:
    """pg-trickle, TPC-H q15: when the maximum moves, the groups that do not change would stay as they are."""
    with pytest.raises(InvalidJobError, match="joins and subqueries.*max"):
        check_group_query(query)
