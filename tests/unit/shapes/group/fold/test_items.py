"""The list of columns of a grouping step over the results of its aggregates."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.fold.items import Items, items_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason
from airflow_backfill_provider.shapes.group.query import check_group_query


def items(text: str, names: frozenset[str] = frozenset()) -> Items | NotFolded:
    query = check_group_query(text)
    return items_of(query.steps, query.units_with(names), query.text, query.words | names)


def test_calls_are_replaced_by_their_results() -> None:
    """I1: each call is folded once, and what is computed from it is the user's text."""
    found = items(
        "SELECT c, sum(x) / count(*) AS mean, coalesce(sum(x), 0) AS s, max(u.b) FILTER (WHERE c > 1) AS m, 1 AS one "
        "FROM upstream u GROUP BY u.c"
    )
    assert isinstance(found, Items)
    assert [" ".join(column.split()) for column in found.columns] == [
        "`c`",
        "`result_0` / `result_1`",
        "coalesce(`result_0` , 0)",
        "`result_2`",
        "1",
    ]
    assert [(call.function, call.arguments, call.condition) for call in found.calls] == [
        ("sum", ("x",), None),
        ("count", ("*",), None),
        ("max", ("u.b",), "c > 1"),
    ]


def test_a_word_is_a_type_only_where_one_stands() -> None:
    found = items("SELECT CAST(max(d) AS date) = date '2026-01-31' AS is_last FROM upstream GROUP BY c")
    assert isinstance(found, Items)
    assert found.columns[0].replace("  ", " ") == "CAST(`result_0` AS date) = date '2026-01-31'"


def test_hidden_units_come_after_the_items() -> None:
    found = items("SELECT count(*) AS n FROM upstream GROUP BY lower(c)")
    assert isinstance(found, Items)
    assert found.columns[1:] == ("`__unit_0`",)


def test_results_have_names_of_their_own() -> None:
    found = items("SELECT result_0, count(*) AS n FROM upstream GROUP BY result_0")
    assert isinstance(found, Items)
    assert [call.output for call in found.calls] == ["a_result_0"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT c || count(*) AS n FROM upstream GROUP BY c", Reason.EXPRESSION),
        ("SELECT count(*) AS n, n + 1 AS m FROM upstream GROUP BY c", Reason.EXPRESSION),
        ("SELECT count(*) + `int` AS n FROM upstream GROUP BY `int`", Reason.EXPRESSION),
        ("SELECT concat(date, count(*)) AS n FROM upstream GROUP BY date", Reason.EXPRESSION),
        ("SELECT collect_set(x)[0] + c.d AS n FROM upstream GROUP BY c.d", Reason.EXPRESSION),
        ("SELECT n FROM (SELECT c, count(*) AS n FROM upstream GROUP BY c) WHERE n > 1", Reason.STEPS),
        ("FROM upstream |> AGGREGATE count(*) AS n GROUP BY c", Reason.STEPS),
        ("SELECT c, rank() OVER (PARTITION BY c ORDER BY x) AS r FROM upstream", Reason.STEPS),
        ("SELECT *, count(*) OVER (PARTITION BY c) AS n FROM upstream", Reason.STEPS),
        ("SELECT DISTINCT c, count(*) AS n FROM upstream GROUP BY c", Reason.STEPS),
        ("SELECT c, count(*) AS n, max(count(*)) OVER (PARTITION BY c) AS m FROM upstream GROUP BY c", Reason.STEPS),
    ],
)
def test_a_list_that_needs_more_than_results_is_not_folded(query: str, reason: Reason) -> None:
    """The groups are computed anew instead, with a named reason."""
    found = items(query)
    assert isinstance(found, NotFolded)
    assert found.reason is reason
