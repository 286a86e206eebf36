"""Aggregates share hidden columns, and hidden columns have names of their own."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.fold.state import State
from tests.unit.shapes.group.fold.calls import call, fold


def test_aggregates_of_one_argument_share_its_count_and_sum() -> None:
    found = fold(
        call("count", "v", "int", "bigint", "a"),
        call("sum", "v", "int", "bigint", "b"),
        call("avg", "v", "int", "double", "c"),
        call("try_sum", "v", "int", "bigint", "d"),
        call("min", "v", "int", "int", "e"),
    )
    assert [column.name for column in found.columns] == [
        "__fold_rows",
        "__fold_count_0",
        "__fold_sum_0",
        "__fold_min_0",
    ]


def test_a_filter_has_hidden_columns_of_its_own() -> None:
    found = fold(
        call("sum", "v", "int", "bigint", "a"),
        call("sum", "v", "int", "bigint", "b", condition="w"),
        call("count", "*", "", "bigint", "c", condition="w"),
        call("count", "v", "int", "bigint", "d", condition="w"),
    )
    assert [column.name for column in found.columns] == [
        "__fold_rows",
        *("__fold_count_0", "__fold_sum_0"),
        *("__fold_count_1", "__fold_sum_1"),
        "__fold_count_2",
    ]


@pytest.mark.parametrize("condition", [None, "w"])
def test_a_sum_that_the_query_has_is_computed_once(condition: str | None) -> None:
    """Of twenty million rows, a second sum costs a fifth of all."""
    found = fold(
        call("avg", "v", "decimal(10,2)", "decimal(14,6)", "a", condition=condition),
        call("sum", "v", "decimal(10,2)", "decimal(20,2)", "b", condition=condition),
    )
    written = "sum(v) FILTER (WHERE w)" if condition else "sum(v)"
    assert f"ELSE CAST({written} AS DECIMAL(38,2)) END" in found.columns[-1].of_rows


@pytest.mark.parametrize("other", ["avg", "try_sum"])
def test_a_sum_that_the_query_does_not_have_raises_no_error(other: str) -> None:
    """I4: a sum with another FILTER may fit where this one does not."""
    result = "decimal(14,6)" if other == "avg" else "decimal(20,2)"
    found = fold(
        call("sum", "v", "decimal(10,2)", "decimal(20,2)", "a", condition="w"),
        call(other, "v", "decimal(10,2)", result, "b"),
    )
    assert "ELSE try_sum(CAST((v) AS DECIMAL(38,2))) END" in found.columns[-1].of_rows


def test_the_truth_of_booleans_is_counted_once() -> None:
    found = fold(
        call("every", "b", "boolean", "boolean", "a"),
        call("bool_or", "b", "boolean", "boolean", "b1"),
        call("count_if", "b", "boolean", "bigint", "c"),
        call("max", "b", "boolean", "boolean", "d"),
    )
    assert [column.name for column in found.columns] == ["__fold_rows", "__fold_count_0", "__fold_true_0"]


@pytest.mark.parametrize("argument", ["*", "1", "42"])
def test_a_count_of_rows_is_the_number_of_rows(argument: str) -> None:
    state = State(["v"])
    assert state.count([argument], None) is state.rows
    assert state.count([argument], "w") is not state.rows


@pytest.mark.parametrize(
    ("names", "prefix"), [(["v"], "__"), (["__fold_rows"], "___"), (["v", "____FOLD_sum_0"], "_____"), ([], "__")]
)
def test_hidden_columns_have_more_underscores_than_users_columns(names: list[str], prefix: str) -> None:
    """I6: no user's column is taken for a hidden one."""
    state = State(names)
    assert (state.rows.name, state.sign, state.is_lost) == tuple(
        prefix + name for name in ("fold_rows", "fold_sign", "fold_is_lost")
    )


def test_the_names_of_results_and_units_are_users_names_too() -> None:
    found = fold(call("count", "*", "", "bigint", "__fold_rows"), units=("____g",))
    assert found.rows.name == "_____fold_rows"
