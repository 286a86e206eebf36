"""
Types whose values can be added and taken away exactly.

A sum is stored as a decimal of 38 digits. Spark adds two decimals exactly only if each has at most 37 digits: with 38,
their sum would need 39, and Spark then gives up digits after the point. So a sum of 38 digits is not kept as a number
but marked as lost, by NULL, and its group is read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

DIGITS = 38
"""The most digits of a decimal of Spark's."""

ADDED_DIGITS = DIGITS - 1
"""The most digits of decimals that Spark adds exactly."""

INTEGRAL = frozenset({"tinyint", "smallint", "int", "bigint"})
FLOATING = frozenset({"float", "double"})

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_MONTHS = re.compile(r"interval (?:year|month)\b.*")
_SECONDS = re.compile(r"interval (?:day|hour|minute|second)\b.*")

_MOST_IN_DECIMAL_SUM = 10
"""The digits that Spark adds to a decimal's type for sums of it."""

_MORE_IN_AVERAGE = 4
"""The digits that Spark adds to a decimal's type for averages of it, before and after the point."""

_LEAST_SCALE = 6
"""The least number of digits after the point of a quotient of decimals."""


@dataclass(frozen=True, slots=True)
class Number:
    """
    How values of a type are added.

    :param scale: the digits after the point of a stored sum.
    :param to_number: returns the SQL of a value as a decimal.
    :param from_number: returns the SQL of a sum in the type that Spark's ``sum`` has.
    :param sum_type: the type of Spark's ``sum``.
    :param sum_fits: returns the condition for a sum to be in the range of that type.
    :param average_type: the type of Spark's ``avg``.
    :param average: returns the SQL of an average, from a sum and a count above zero.
    :param average_fits: returns the condition for that to be exact.
    """

    scale: int
    to_number: Callable[[str], str]
    from_number: Callable[[str], str]
    sum_type: str
    sum_fits: Callable[[str], str]
    average_type: str
    average: Callable[[str, str], str]
    average_fits: Callable[[str], str]

    @property
    def stored_type(self) -> str:
        """The type of a stored sum."""
        return f"decimal({DIGITS},{self.scale})"

    @property
    def added_type(self) -> str:
        """The type in which sums are added."""
        return f"decimal({ADDED_DIGITS},{self.scale})"


def number_of(type_: str) -> Number | None:
    """
    Return how values of a type are added; ``None`` if they cannot be added exactly.

    :param type_: the type, as Spark's ``simpleString`` writes it.
    """
    if type_ in INTEGRAL:
        return _integral()
    if found := _DECIMAL.fullmatch(type_):
        return _decimal(int(found[1]), int(found[2]))
    if _MONTHS.fullmatch(type_):
        return _interval(type_, "month", 0, (-(2**31), 2**31 - 1), "interval year to month")
    if _SECONDS.fullmatch(type_):
        return _interval(type_, "second", 6, (-(2**63), 2**63 - 1), "interval day to second")
    return None


def as_decimal(sql: str, digits: int, scale: int) -> str:
    """Return the SQL of a value as a decimal."""
    return f"CAST({sql} AS DECIMAL({digits},{scale}))"


def _integral() -> Number:
    def in_range(total: str) -> str:
        return f"{total} BETWEEN -{2**63}BD AND {2**63 - 1}BD"

    return Number(
        scale=0,
        to_number=lambda sql: as_decimal(sql, DIGITS, 0),
        from_number=lambda total: f"CAST({total} AS BIGINT)",
        sum_type="bigint",
        sum_fits=in_range,
        average_type="double",
        average=lambda total, count: f"CAST({total} AS DOUBLE) / CAST({count} AS DOUBLE)",
        average_fits=lambda _: "true",
    )


def _decimal(precision: int, scale: int) -> Number | None:
    if scale > ADDED_DIGITS:
        return None
    sum_digits = min(precision + _MOST_IN_DECIMAL_SUM, DIGITS)
    average_scale = min(scale + _MORE_IN_AVERAGE, DIGITS)
    average_digits = min(precision + _MORE_IN_AVERAGE, DIGITS)
    # A decimal with so many digits, divided by a count, has exactly the scale of Spark's average. So Spark rounds as
    # its average does. It would round a quotient of a larger scale a second time, and there the result may differ.
    divided = DIGITS - average_scale + scale
    is_direct = average_scale >= _LEAST_SCALE

    def below(total: str, digits: int) -> str:
        # Not by abs: of a decimal of more than 34 digits, Spark rounds the negative.
        least, most = (as_decimal(f"{bound}BD", DIGITS, scale) for bound in (-(10**digits), 10**digits))
        return f"{total} > {least} AND {total} < {most}"

    def average(total: str, count: str) -> str:
        divisor = as_decimal(count, 20, 0)
        if is_direct:
            quotient = f"{as_decimal(total, divided, scale)} / {divisor}"
        else:  # divide a hundredth of it, whose average has a scale that Spark allows
            hundredth = as_decimal(f"{as_decimal(total, divided, scale)} * 0.01BD", divided, scale + 2)
            quotient = f"{hundredth} / {divisor} * 100BD"
        return as_decimal(quotient, average_digits, average_scale)

    return Number(
        scale=scale,
        to_number=lambda sql: as_decimal(sql, DIGITS, scale),
        from_number=lambda total: as_decimal(total, sum_digits, scale),
        sum_type=f"decimal({sum_digits},{scale})",
        sum_fits=lambda total: "true" if sum_digits == DIGITS else below(total, sum_digits - scale),
        average_type=f"decimal({average_digits},{average_scale})",
        average=average,
        average_fits=lambda total: below(total, divided - scale if is_direct else DIGITS - _LEAST_SCALE),
    )


def _interval(type_: str, unit: str, scale: int, units: tuple[int, int], average_type: str) -> Number:
    """
    Return how intervals are added, as a number of months or seconds.

    :param units: the least and the greatest interval, in the last digits of the scale.
    """
    least, most = (f"{Decimal(bound).scaleb(-scale):f}BD" for bound in units)

    def to_interval(total: str, into: str) -> str:
        return f"CAST(CAST({total} AS INTERVAL {unit}) AS {into})"

    def in_range(total: str) -> str:
        return f"{total} BETWEEN {least} AND {most}"

    return Number(
        scale=scale,
        to_number=lambda sql: as_decimal(f"CAST({sql} AS INTERVAL {unit})", DIGITS, scale),
        from_number=lambda total: to_interval(total, type_),
        sum_type=type_,
        sum_fits=in_range,
        average_type=average_type,
        average=lambda total, count: f"{to_interval(total, average_type)} / {count}",
        average_fits=in_range,
    )
