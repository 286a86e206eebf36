"""
Converts the values of JSON fields to the types of columns, exactly.

A value is a marked text (see :mod:`.json_text`), or ``true`` or ``false``. What the type cannot hold becomes null, and
so does what it could only hold in part: the digits of a decimal or of a second that are too many, and the zone of a
time without one.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.decimals import digits_of, is_decimal
from airflow_backfill_provider.sources.formats.column_types import sql_name
from airflow_backfill_provider.sources.formats.json_text import NUMBER, TEXT

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_NUMBERS = _INTEGERS | {"float", "double"}

_END = r"\z"
"""The end of a text; a dollar would also match before a line break at the end."""

_WHOLE = "^-?[0-9]+$"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_ZONE = "Z|[+-][0-9]{2}:[0-9]{2}"
_BASE64_UNIT = 4
_BASE64 = rf"^[A-Za-z0-9+/]*={{0,2}}{_END}"

_NUMBER_PARTS = "^-?([0-9]+)(?:[.]([0-9]+))?[eE]([+-]?[0-9]+)$"
_MOST_EXPONENT_DIGITS = 4
"""An exponent with more digits is of no decimal but zero."""


def scalar(value: Column, delta_type: str) -> Column:
    """
    Return a field's value in a column's type; null if it does not fit.

    :param value: a marked text, ``true`` or ``false``.
    """
    if delta_type == "boolean":
        return F.when(value == "true", F.lit(True)).when(value == "false", F.lit(False))
    if delta_type in _NUMBERS or is_decimal(delta_type):
        return _number(_after(NUMBER, value), delta_type)
    return _FROM_TEXT[delta_type](_after(TEXT, value))


def _after(mark: str, value: Column) -> Column:
    return F.when(value.startswith(mark), value.substr(F.lit(2), F.length(value)))


def _number(number: Column, delta_type: str) -> Column:
    if is_decimal(delta_type):
        return _decimal(number, delta_type)
    if delta_type in _INTEGERS:
        return F.when(number.rlike(_WHOLE), number.try_cast(sql_name(delta_type)))
    parsed = number.try_cast(delta_type)
    return F.when(F.abs(parsed) < F.lit("Infinity").cast(delta_type), parsed)


def _instant(text: Column) -> Column:
    """Return an instant; without a zone it is in UTC, whatever the session's zone is."""
    # Spark knows no minutes with a zone behind them.
    whole = F.when(F.substr(text, F.lit(17), F.lit(1)) == ":", text).otherwise(_with_seconds(text))
    zoned = F.when(text.rlike(f"({_ZONE}){_END}"), whole).otherwise(F.concat(whole, F.lit("Z")))
    return F.when(text.rlike(f"^{_DATE}[T ]{_TIME}({_ZONE})?{_END}"), zoned.try_cast("timestamp"))


def _with_seconds(text: Column) -> Column:
    minutes = F.substr(text, F.lit(1), F.lit(16))
    return F.concat(minutes, F.lit(":00"), F.substr(text, F.lit(17)))


def _decimal(number: Column, delta_type: str) -> Column:
    """Return a decimal, unless it has more digits after the point than the type: Spark would round it."""
    _, scale = digits_of(delta_type)
    without_exponent = number.rlike(f"^-?[0-9]+([.][0-9]{{0,{scale}}}0*)?$")
    # Few producers write exponents, and looking at their digits costs more than all else.
    with_exponent = F.when(number.rlike("[eE]"), _with_exponent(number, delta_type, scale))
    return F.when(without_exponent, number.try_cast(delta_type)).otherwise(with_exponent)


def _with_exponent(number: Column, delta_type: str, scale: int) -> Column:
    whole, fraction, exponent = (F.regexp_extract(number, _NUMBER_PARTS, part) for part in (1, 2, 3))
    digits = F.rtrim(F.concat(whole, fraction), F.lit("0"))
    ends_with = F.length(whole) + F.length(fraction) - F.length(digits)
    is_short = F.length(F.regexp_replace(exponent, "^[+-]?0*", "")) <= _MOST_EXPONENT_DIGITS
    digits_after_point = F.length(fraction) - F.when(is_short, exponent.try_cast("int")) - ends_with
    value = F.when(is_short & (digits_after_point <= scale), number.try_cast(delta_type))
    return F.when(digits == "", F.lit(0).cast(delta_type)).otherwise(value)


def _text(text: Column) -> Column:
    return text


def _binary(text: Column) -> Column:
    is_whole = text.rlike(_BASE64) & (F.length(text) % _BASE64_UNIT == 0)
    return F.when(is_whole, F.try_to_binary(text, F.lit("base64")))


def _date(text: Column) -> Column:
    return F.when(text.rlike(f"^{_DATE}{_END}"), text.try_cast("date"))


def _local_time(text: Column) -> Column:
    return F.when(text.rlike(f"^{_DATE}[T ]{_TIME}{_END}"), text.try_cast("timestamp_ntz"))


_FROM_TEXT = {
    "string": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local_time,
}
"""Type → what converts texts to it."""
