"""The parts of a group's state."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.group.fold.columns import Images, counter, extreme, total
from airflow_backfill_provider.shapes.group.fold.numbers import number_of

IMAGES = Images("__sign", None)
ROWS = counter("rows", "count(*)", IMAGES)
COUNT = counter("n", "count(v)", IMAGES)


@pytest.mark.parametrize(("function", "further", "reaches"), [("min", "least", "<="), ("max", "greatest", ">=")])
def test_an_extreme_is_lost_if_it_goes_and_none_comes_instead(function: str, further: str, reaches: str) -> None:
    """I1: what remains of the group is known only from its rows."""
    column = extreme("x", function, "v", "int", COUNT, IMAGES)
    goes = f"coalesce(delta.`x_gone` {reaches} base.`x`, false)"
    assert f"WHEN {goes} THEN delta.`x_came` ELSE {further}(base.`x`, delta.`x_came`) END" in column.moved
    assert column.is_lost == f"{COUNT.moved} <> 0 AND {goes} AND NOT coalesce(delta.`x_came` {reaches} base.`x`, false)"


def test_a_sum_is_added_in_a_type_that_spark_adds_exactly() -> None:
    """I1: for two decimals of 38 digits, Spark gives up digits after the point."""
    number = number_of("decimal(38,18)")
    assert number is not None
    column = total("s", "v", number, COUNT, ROWS, IMAGES)
    assert column.type == "decimal(38,18)"
    assert "+ try_cast(delta.`s_came` AS decimal(37,18)) AS decimal(37,18)) - try_cast(delta.`s_gone`" in column.moved


def test_a_sum_without_values_is_zero_and_a_lost_one_is_null() -> None:
    number = number_of("int")
    assert number is not None
    column = total("s", "v", number, COUNT, ROWS, IMAGES)
    nothing = "CAST(0 AS DECIMAL(38,0))"
    assert column.of_rows.startswith(f"CASE WHEN count(v) = 0 THEN {nothing} ELSE try_sum(")
    assert column.moved.startswith(f"CASE WHEN {COUNT.moved} = 0 THEN {nothing} ELSE ")
