"""How two queries of rows differ."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.job.definition_change import ChangeKind, DefinitionChange
from airflow_backfill_provider.shapes.row.query import check_query

COLUMNS = ("id", "amount * 100 AS cents", "upper(note) AS note")
CONDITIONS = (
    "status = 'paid'",
    "a OR b AND NOT c",
    "extract(YEAR FROM ts) = 2020",
    "x IS NOT DISTINCT FROM 3",
    "CASE WHEN a THEN b ELSE c END",
    "note = 'it''s FROM here' AND `from` BETWEEN 1 AND 2",
    "note = r'\\d' OR note = 'WHERE'",
)


def difference(before: str, after: str) -> DefinitionChange:
    return check_query(before).difference_to(check_query(after))


def query(columns: Sequence[str], condition: str | None, source: str = "upstream") -> str:
    where = "" if condition is None else f" WHERE {condition}"
    return f"SELECT {', '.join(columns)} FROM {source}{where}"


@given(
    columns=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=3, unique=True),
    conditions=st.lists(st.sampled_from((*CONDITIONS, None)), min_size=2, max_size=2, unique=True),
    source=st.sampled_from(("upstream", "upstream AS o", "upstream o")),
)
def test_if_only_the_condition_differs_both_are_found_as_they_are_written(
    columns: list[str], conditions: list[str | None], source: str
):
    before, after = conditions
    found = difference(query(columns, before, source), query(columns, after, source))
    assert found.kind is ChangeKind.FILTER
    assert found.filters is not None
    assert (found.filters.before, found.filters.after) == (before or "TRUE", after or "TRUE")
    assert found.filters.relation == source.rsplit(maxsplit=1)[-1]


@given(
    old=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    new=st.lists(st.sampled_from(COLUMNS), min_size=1, unique=True),
    condition=st.sampled_from((*CONDITIONS, None)),
)
def test_a_set_of_columns_that_differs_is_never_called_a_filter(old: list[str], new: list[str], condition: str | None):
    if old == new:
        return
    found = difference(query(old, None), query(new, condition))
    added, dropped = set(new) - set(old), set(old) - set(new)
    gone = ChangeKind.COLUMNS_DROPPED if dropped else ChangeKind.COLUMNS_CHANGED
    expected = ChangeKind.COLUMNS_ADDED if added else gone
    assert found.kind is expected
    assert found.filters is None


@pytest.mark.parametrize(
    "after",
    [
        "SELECT id, amount * 10 AS cents FROM upstream WHERE a",
        "SELECT id, amount * 100 AS cents FROM upstream AS o WHERE a",
        "FROM upstream |> WHERE a |> SELECT id, amount * 100 AS cents",
        "WITH kept AS (SELECT * FROM upstream WHERE a) SELECT id, amount * 100 AS cents FROM kept",
        "SELECT id, amount * 100 AS cents FROM (SELECT * FROM upstream) WHERE a",
        "SELECT * FROM upstream WHERE a",
        "SELECT id, thing.* FROM upstream WHERE a",
    ],
)
def test_what_the_text_does_not_show_is_found_by_a_comparison_of_all_rows(after: str):
    assert difference("SELECT id, amount * 100 AS cents FROM upstream WHERE a", after).kind is ChangeKind.EXPRESSIONS


def test_steps_never_differ_by_their_conditions_alone():
    """A condition of a later step may read what an earlier one computes."""
    steps = "SELECT id FROM (SELECT id, amount * 2 AS amount FROM upstream) WHERE amount > {}"
    assert difference(steps.format(1), steps.format(2)).kind is ChangeKind.EXPRESSIONS


def test_the_names_of_added_and_dropped_columns_are_told():
    found = difference("SELECT id, a FROM upstream", "SELECT id, b FROM upstream")
    assert found.reason == "the view has no column b; the query no longer has the column a"
    found = difference("SELECT id, a FROM upstream", "SELECT id FROM upstream")
    assert found.reason == "the query no longer has the column a"


def test_a_star_may_have_another_condition():
    found = difference("SELECT * FROM upstream WHERE a", "SELECT * FROM upstream")
    assert found.kind is ChangeKind.FILTER
