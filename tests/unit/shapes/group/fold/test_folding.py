"""A step that can be folded has hidden columns; any other has a reason."""

from __future__ import annotations

from airflow_backfill_provider.shapes.group.fold.folding import fold_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason
from airflow_backfill_provider.shapes.group.fold.step import GroupingStep
from tests.unit.shapes.group.fold.calls import call, fold

COUNT = call("count", "*", "", "bigint", "n")


def test_distinct_rows_have_their_number_alone() -> None:
    """SELECT DISTINCT keeps a row until the last row that is equal to it goes."""
    assert [(column.name, column.type) for column in fold(units=("a", "b")).columns] == [("__fold_rows", "bigint")]


def test_a_group_is_gone_if_it_has_no_rows() -> None:
    """I1: a sum of 0 does not say so."""
    assert fold(call("sum", "v", "int", "bigint")).is_gone == "`__fold_rows` = 0"


def test_a_group_of_all_rows_is_never_gone() -> None:
    """I1: a query without GROUP BY has one row, also over nothing."""
    assert fold(COUNT, units=()).is_gone == "false"


def test_having_is_not_folded() -> None:
    """I1: the state of groups that HAVING leaves out would be nowhere."""
    found = fold_of(GroupingStep(aggregates=(COUNT,), units=("g",), has_having=True), ("g",))
    assert isinstance(found, NotFolded)
    assert found.reason is Reason.HAVING
    assert "second job with WHERE" in str(found)


def test_one_aggregate_that_cannot_be_folded_decides_for_the_step() -> None:
    step = GroupingStep(aggregates=(COUNT, call("median", "v", "int", "double")), units=("g",))
    found = fold_of(step, ("g", "v"))
    assert isinstance(found, NotFolded)
    assert found.reason is Reason.FUNCTION


def test_a_group_without_extremes_and_sums_is_never_read_again() -> None:
    assert fold(COUNT, call("bool_and", "b", "boolean", "boolean")).is_inexact == "false"


def test_a_step_says_whether_any_group_may_have_to_be_read_again() -> None:
    """I1: if none may, an epoch does not look for them."""
    assert not fold(COUNT, call("bool_and", "b", "boolean", "boolean")).may_lose
    assert fold(call("min", "v", "int", "int")).may_lose
    assert fold(call("sum", "v", "bigint", "bigint")).may_lose


def test_averages_of_integers_are_rounded_and_those_of_decimals_are_not() -> None:
    """Spark computes the first with floating-point numbers, so that their last digits depend on the order of rows."""
    found = fold(
        call("avg", "v", "bigint", "double", "a"),
        call("avg", "m", "decimal(10,2)", "decimal(14,6)", "b"),
        call("sum", "v", "bigint", "bigint", "c"),
    )
    assert found.rounded == {"a"}


def test_each_number_of_rows_lies_between_none_and_all() -> None:
    """I6: a state that no rows have is refused; a least value may be any number."""
    found = fold(call("count", "v", "int", "bigint", "a"), call("min", "v", "bigint", "bigint", "b"))
    assert found.is_impossible == (
        "`__fold_rows` NOT BETWEEN 0 AND `__fold_rows` OR `__fold_count_0` NOT BETWEEN 0 AND `__fold_rows`"
    )
