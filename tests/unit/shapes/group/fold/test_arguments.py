"""The arguments of aggregates as columns of the rows that are grouped."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.shapes.group.fold.arguments import named_arguments
from airflow_backfill_provider.shapes.group.fold.folding import fold_of
from airflow_backfill_provider.shapes.group.fold.step import Aggregate, GroupingStep


def aggregate(function, *arguments, condition=None, types=("bigint",), output="result"):
    return Aggregate(
        function=function,
        arguments=arguments,
        argument_types=() if arguments == ("*",) else types,
        result_type="bigint",
        output=output,
        condition=condition,
    )


CALLS = (
    aggregate("count", "*", output="r0"),
    aggregate("count", "1", output="r1"),
    aggregate("sum", "o.amount", output="r2"),
    aggregate("max", "o.amount", output="r3"),
    aggregate("sum", "o.amount", condition="c.vip", output="r4"),
    aggregate("count", "*", condition="c.vip", output="r5"),
    aggregate("count", "o.amount", "c.id", types=("bigint", "bigint"), output="r6"),
)


def test_equal_arguments_share_a_column():
    """A star and a number mean the same over any rows."""
    found = named_arguments(CALLS, own_columns(["amount"]))
    assert found.columns == (
        ("(o.amount)", "__argument_0"),
        ("CASE WHEN c.vip THEN o.amount END", "__argument_1"),
        ("(c.vip)", "__argument_2"),
        ("(c.id)", "__argument_3"),
    )
    assert [(one.arguments, one.condition) for one in found.aggregates] == [
        (("*",), None),
        (("1",), None),
        (("`__argument_0`",), None),
        (("`__argument_0`",), None),
        (("`__argument_1`",), "`__argument_2`"),
        (("*",), "`__argument_2`"),
        (("`__argument_0`", "`__argument_3`"), None),
    ]


def test_a_fold_over_columns_has_the_state_of_the_query():
    """The view's hidden columns are those that the settings pin, which the user's text defines."""
    named = named_arguments(CALLS, own_columns(["amount"]))
    written, over_columns = (
        fold_of(GroupingStep(aggregates=tuple(aggregates), units=("country",)), ["amount"])
        for aggregates in (CALLS, named.aggregates)
    )
    assert [(state.name, state.type) for state in over_columns.columns] == [
        (state.name, state.type) for state in written.columns
    ]
    assert "o.amount" not in str(over_columns)


@pytest.mark.parametrize(("condition", "column"), [(None, "(1 / x)"), ("x <> 0", "CASE WHEN x <> 0 THEN 1 / x END")])
def test_an_argument_is_computed_only_where_its_filter_takes_the_row(condition, column):
    """Spark does not divide by the zero that FILTER leaves out."""
    found = named_arguments([aggregate("sum", "1 / x", condition=condition)], own_columns([]))
    assert found.columns[0][0] == column
