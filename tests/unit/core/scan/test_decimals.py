"""How far statistics of decimals may be off, against floats as delta-rs writes them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.decimals import (
    highest_statistic,
    is_rounded,
    lowest_statistic,
    rounded_down,
    rounded_up,
)

TYPES = st.tuples(st.integers(1, 38), st.integers(0, 38)).filter(lambda digits: digits[1] <= digits[0])
LEAST, GREATEST = -(2**63), 2**63 - 1


def as_delta_rs_writes(value: Decimal, scale: int) -> Decimal:
    """Return a value as the log has it: a float, or a whole number that fits into 64 bits."""
    number = float(value)
    if scale == 0:
        return Decimal(min(max(int(number), LEAST), GREATEST))
    return Decimal(repr(number))


@st.composite
def decimals(draw):
    precision, scale = draw(TYPES)
    most = 10**precision - 1
    digits = draw(st.integers(-most, most) | st.sampled_from([most, -most, 0, 1]))
    return Decimal(digits).scaleb(-scale), f"decimal({precision},{scale})", scale


@settings(max_examples=40)
@given(decimals())
@example((Decimal("9" * 38), "decimal(38,0)", 0))
@example((Decimal("-1" + "0" * 19), "decimal(20,0)", 0))
@example((Decimal("95759157456403.5008"), "decimal(18,4)", 4))
def test_no_value_lies_outside_of_its_widened_statistics(drawn):
    """Design: statistics are hints. A bound of the planner's may be too wide, never too narrow."""
    value, type_, scale = drawn
    written = as_delta_rs_writes(value, scale)
    low, high = rounded_down(written, type_), rounded_up(written, type_)
    assert low is None or low <= value
    assert high is None or value <= high


@settings(max_examples=40)
@given(decimals())
@example((Decimal("9" * 38), "decimal(38,0)", 0))
@example((Decimal("95759157456403.5008"), "decimal(18,4)", 4))
def test_a_file_that_ends_at_a_value_is_not_skipped_because_of_its_statistics(drawn):
    """I1: a condition that lets a reader skip files is wide enough for statistics that were rounded."""
    value, type_, scale = drawn
    written = as_delta_rs_writes(value, scale)
    lowest, highest = lowest_statistic(value, type_), highest_statistic(value, type_)
    assert lowest is None or lowest <= written
    assert highest is None or highest >= written


@settings(max_examples=40)
@given(decimals())
def test_a_condition_compares_with_a_value_of_the_type(drawn):
    value, type_, scale = drawn
    most = Decimal(10 ** int(type_[len("decimal(") :].split(",")[0]) - 1).scaleb(-scale)
    for widened in filter(None, (lowest_statistic(value, type_), highest_statistic(value, type_))):
        assert -most <= widened <= most
        assert -int(widened.as_tuple().exponent) <= scale


@pytest.mark.parametrize(("type_", "rounded"), [("decimal(15,2)", False), ("decimal(16,0)", True)])
def test_floats_have_fifteen_exact_digits(type_, rounded):
    assert is_rounded(type_) is rounded
    assert (lowest_statistic(Decimal(7), type_) == 7) is (not rounded)
