"""
Bounds for decimal columns whose statistics may be rounded.

delta-rs writes statistics of decimals as 64-bit floats, which hold about fifteen digits, and clamps whole numbers to
the range of 64-bit integers. Spark writes them exactly. The log does not record which of the two wrote a file.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

EXACT_DIGITS = 15
"""Decimals with at most this many digits survive the conversion to a float."""

_TYPE = re.compile(r"^decimal\((\d+),(\d+)\)$")
_CONTEXT = Context(prec=100)
_RELATIVE_ERROR = Decimal(2) ** -50
"""Relative error of a bound: a float's last digit, once for the writer and once for the reader."""

_GREATEST = Decimal(2**63 - 1)
_LEAST = Decimal(-(2**63))


def is_rounded(type_: str) -> bool:
    """
    Return whether statistics of a decimal type may be rounded.

    :param type_: Delta's name of the type, such as ``decimal(20,2)``.
    """
    return digits_of(type_)[0] > EXACT_DIGITS


def rounded_down(value: Decimal, type_: str) -> Decimal | None:
    """Return a lower bound of the values of a file with this smallest value in its statistics; ``None`` if unknown."""
    if not is_rounded(type_):
        return value
    # A smaller value is clamped to this one.
    return None if value <= _LEAST else _widened(value, type_, -1)


def rounded_up(value: Decimal, type_: str) -> Decimal | None:
    """Return an upper bound of the values of a file with this largest value in its statistics; ``None`` if unknown."""
    if not is_rounded(type_):
        return value
    return None if value >= _GREATEST else _widened(value, type_, +1)


def lowest_statistic(value: Decimal, type_: str) -> Decimal | None:
    """
    Return the lowest possible statistic for a file with a true largest value of at least this value.

    :returns: ``None`` if any statistic is possible.
    """
    if not is_rounded(type_):
        return value
    widened = _widened(value, type_, -1)
    return None if widened == -_most(type_) else min(widened, _GREATEST)


def highest_statistic(value: Decimal, type_: str) -> Decimal | None:
    """
    Return the highest possible statistic for a file with a true smallest value of at most this value.

    :returns: ``None`` if any statistic is possible.
    """
    if not is_rounded(type_):
        return value
    widened = _widened(value, type_, +1)
    return None if widened == _most(type_) else max(widened, _LEAST)


def is_decimal(type_: str) -> bool:
    """Return whether Delta's name of a type is that of a decimal."""
    return _TYPE.match(type_) is not None


def digits_of(type_: str) -> tuple[int, int]:
    """Return the precision and the scale of a decimal type."""
    found = _TYPE.match(type_)
    if found is None:
        raise ValueError(f"{type_} is not a decimal type")
    precision, scale = map(int, found.groups())
    return precision, scale


def _widened(value: Decimal, type_: str, direction: int) -> Decimal:
    """Return a value moved down or up by its possible error, within the type's range."""
    step, most = _step(type_), _most(type_)
    error = _CONTEXT.multiply(value.copy_abs(), _RELATIVE_ERROR)
    moved = _CONTEXT.add(value, error.copy_sign(direction))
    rounding = ROUND_CEILING if direction > 0 else ROUND_FLOOR
    return max(min(moved.quantize(step, rounding, context=_CONTEXT), most), -most)


def _step(type_: str) -> Decimal:
    return Decimal(1).scaleb(-digits_of(type_)[1])


def _most(type_: str) -> Decimal:
    """Return the greatest value of a decimal type."""
    return _CONTEXT.multiply(Decimal(10 ** digits_of(type_)[0] - 1), _step(type_))
