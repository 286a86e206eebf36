"""The types of sums and averages are Spark's, and sums have room."""

from __future__ import annotations

import re

import pytest

from airflow_backfill_provider.shapes.group.fold.numbers import number_of


@pytest.mark.parametrize(
    ("kind", "stored", "total", "average"),
    [
        ("tinyint", "decimal(38,0)", "bigint", "double"),
        ("bigint", "decimal(38,0)", "bigint", "double"),
        ("decimal(10,2)", "decimal(38,2)", "decimal(20,2)", "decimal(14,6)"),
        ("decimal(1,0)", "decimal(38,0)", "decimal(11,0)", "decimal(5,4)"),
        ("decimal(28,3)", "decimal(38,3)", "decimal(38,3)", "decimal(32,7)"),
        ("decimal(38,18)", "decimal(38,18)", "decimal(38,18)", "decimal(38,22)"),
        ("decimal(37,37)", "decimal(38,37)", "decimal(38,37)", "decimal(38,38)"),
        ("interval day", "decimal(38,6)", "interval day", "interval day to second"),
        ("interval hour to second", "decimal(38,6)", "interval hour to second", "interval day to second"),
        ("interval year", "decimal(38,0)", "interval year", "interval year to month"),
        ("interval month", "decimal(38,0)", "interval month", "interval year to month"),
    ],
)
def test_sums_and_averages_have_the_types_of_spark(kind: str, stored: str, total: str, average: str) -> None:
    number = number_of(kind)
    assert number is not None
    assert (number.stored_type, number.sum_type, number.average_type) == (stored, total, average)


@pytest.mark.parametrize("kind", ["float", "double", "string", "decimal(38,38)", "interval", "boolean", "void"])
def test_other_types_are_not_added(kind: str) -> None:
    assert number_of(kind) is None


@pytest.mark.parametrize(
    ("scale", "divided"),
    [(2, "DECIMAL(34,2)"), (18, "DECIMAL(34,18)"), (30, "DECIMAL(34,30)"), (34, "DECIMAL(34,34)")],
)
def test_a_quotient_has_the_scale_of_the_average(scale: int, divided: str) -> None:
    """I1: Spark rounds it once, as its average does."""
    number = number_of(f"decimal(38,{scale})")
    assert number is not None
    assert f"CAST(t AS {divided}) / CAST(n AS DECIMAL(20,0))" in number.average("t", "n")


def spark_quotient(precision: int, scale: int) -> tuple[int, int]:
    """Return the type that Spark gives the quotient of a decimal and a DECIMAL(20,0)."""
    before, after = precision - scale, max(6, scale + 20 + 1)
    return (before + after, after) if before + after <= 38 else (38, max(38 - before, min(after, 6)))


def spark_product(precision: int, scale: int) -> tuple[int, int]:
    """Return the type that Spark gives the product of a decimal and a DECIMAL(3,0)."""
    before = precision + 3 + 1 - scale
    return (before + scale, scale) if before + scale <= 38 else (38, max(38 - before, min(scale, 6)))


@pytest.mark.parametrize("scale", range(38))
def test_no_average_is_rounded_twice_and_none_overflows_on_the_way(scale: int) -> None:
    """I1: for every scale, and the largest sum that is not read again."""
    number = number_of(f"decimal(38,{scale})")
    assert number is not None
    average_scale, text = min(scale + 4, 38), number.average("t", "n")
    casts = [tuple(map(int, found)) for found in re.findall(r"AS DECIMAL\((\d+),(\d+)\)", text)]
    largest = re.search(r"CAST\((\d+)BD", number.average_fits("t"))
    assert largest is not None
    digits = len(largest[1]) - 1  # before the point
    if average_scale >= 6:
        (divided, _, result) = casts
        assert spark_quotient(*divided) == (38, average_scale)
        steps = [divided, spark_quotient(*divided), result]
    else:
        (total, hundredth, _, result) = casts
        quotient = spark_quotient(*hundredth)
        assert quotient == (38, average_scale + 2)  # of a hundredth
        steps = [total, spark_product(*quotient), result]
        assert digits - 2 <= min(hundredth[0] - hundredth[1], quotient[0] - quotient[1])
        assert spark_product(*quotient)[1] >= average_scale
    assert result == (38, average_scale)
    assert digits <= min(precision - after for precision, after in steps)


def test_an_interval_is_in_range_as_long_as_spark_can_hold_it() -> None:
    number = number_of("interval day to second")
    assert number is not None
    assert number.sum_fits("t") == "t BETWEEN -9223372036854.775808BD AND 9223372036854.775807BD"
