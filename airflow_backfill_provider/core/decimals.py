"""
How far the statistics of decimals may be from the values that they are of.

delta-rs writes them as 64-bit floats, which tell some fifteen digits, and whole numbers beyond 64 bits as the greatest
or least of these. Spark writes them exactly; which of the two wrote a file, its log does not say.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

EXACT_DIGITS = 15
"""Decimals of so many digits are the same as floats."""

_TYPE = re.compile(r"^decimal\((\d+),(\d+)\)$")
_CONTEXT = Context(prec=100)
_SHARE = Decimal(2) ** -50
"""By how much of itself a bound may be off: a float's last digit, and that of whoever reads the text again."""

_GREATEST = Decimal(2**63 - 1)
_LEAST = Decimal(-(2**63))


def is_rounded(type_: str) -> bool:
    """
    Tell whether statistics of a decimal type may be rounded.

    :param type_: Delta's name of the type, such as ``decimal(20,2)``.
    """
    return digits_of(type_)[0] > EXACT_DIGITS


def rounded_down(value: Decimal, type_: str) -> Decimal | None:
    """Return what no value lies below whose statistics say that it is the smallest; ``None`` if that is not known."""
    if not is_rounded(type_):
        return value
    # Floats beyond 64 bits end as the least of these numbers.
    return None if value <= _LEAST else _widened(value, type_, -1)


def rounded_up(value: Decimal, type_: str) -> Decimal | None:
    """Return what no value lies above whose statistics say that it is the largest; ``None`` if that is not known."""
    if not is_rounded(type_):
        return value
    return None if value >= _GREATEST else _widened(value, type_, +1)


def lowest_statistic(value: Decimal, type_: str) -> Decimal | None:
    """
    Return the least that a file's largest value may be said to be if it is this value or a greater one.

    :returns: ``None`` if it may be said to be anything.
    """
    if not is_rounded(type_):
        return value
    widened = _widened(value, type_, -1)
    return None if widened == -_most(type_) else min(widened, _GREATEST)


def highest_statistic(value: Decimal, type_: str) -> Decimal | None:
    """
    Return the most that a file's smallest value may be said to be if it is this value or a lesser one.

    :returns: ``None`` if it may be said to be anything.
    """
    if not is_rounded(type_):
        return value
    widened = _widened(value, type_, +1)
    return None if widened == _most(type_) else max(widened, _LEAST)


def is_decimal(type_: str) -> bool:
    """Tell whether Delta's name of a type is that of a decimal."""
    return _TYPE.match(type_) is not None


def digits_of(type_: str) -> tuple[int, int]:
    """Return how many digits a decimal type has, and how many of them stand after the point."""
    found = _TYPE.match(type_)
    if found is None:
        raise ValueError(f"{type_} is no decimal type")
    precision, scale = map(int, found.groups())
    return precision, scale


def _widened(value: Decimal, type_: str, direction: int) -> Decimal:
    """Return a value further down or up by as much as it may be off, as far as the type has such values."""
    step, most = _step(type_), _most(type_)
    off = _CONTEXT.multiply(value.copy_abs(), _SHARE)
    moved = _CONTEXT.add(value, off.copy_sign(direction))
    rounding = ROUND_CEILING if direction > 0 else ROUND_FLOOR
    return max(min(moved.quantize(step, rounding, context=_CONTEXT), most), -most)


def _step(type_: str) -> Decimal:
    return Decimal(1).scaleb(-digits_of(type_)[1])


def _most(type_: str) -> Decimal:
    """Return the greatest value of a type."""
    return _CONTEXT.multiply(Decimal(10 ** digits_of(type_)[0] - 1), _step(type_))
