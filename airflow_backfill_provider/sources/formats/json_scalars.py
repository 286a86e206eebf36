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

_WHOLE = "^-?[0-9]+$"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_ZONE = "Z|[+-][0-9]{2}:[0-9]{2}"
_BASE64_UNIT = 4
_BASE64 = "^[A-Za-z0-9+/]*={0,2}$"

_NUMBER_PARTS = "^(-?)([0-9]+)(?:[.]([0-9]+))?(?:[eE]([+-]?[0-9]+))?$"
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
    instant = F.when(text.rlike(f"^{_DATE}[T ]{_TIME}$"), F.concat(text, F.lit("Z")))
    instant = instant.when(text.rlike(f"^{_DATE}[T ]{_TIME}({_ZONE})$"), text)
    # Spark knows no minutes with a zone behind them.
    return F.regexp_replace(instant, f"^(.{{16}})({_ZONE})$", "$1:00$2").try_cast("timestamp")


def _decimal(number: Column, delta_type: str) -> Column:
    """Return a decimal, unless it has more digits after the point than the type: Spark would round it."""
    _, scale = digits_of(delta_type)
    whole, fraction, exponent = (F.regexp_extract(number, _NUMBER_PARTS, part) for part in (2, 3, 4))
    digits = F.rtrim(F.concat(whole, fraction), F.lit("0"))
    ends_with = F.length(whole) + F.length(fraction) - F.length(digits)
    is_short = F.length(F.regexp_replace(exponent, "^[+-]?0*", "")) <= _MOST_EXPONENT_DIGITS
    shift = F.coalesce(F.when(is_short, exponent.try_cast("int")), F.lit(0))
    digits_after_point = F.length(fraction) - shift - ends_with
    fits = (is_short & (digits_after_point <= scale) & number.try_cast(delta_type).isNotNull()) | (digits == "")
    return F.when(fits, F.when(digits == "", F.lit(0)).otherwise(number.try_cast(delta_type)).cast(delta_type))


def _text(text: Column) -> Column:
    return text


def _binary(text: Column) -> Column:
    is_whole = text.rlike(_BASE64) & (F.length(text) % _BASE64_UNIT == 0)
    return F.when(is_whole, F.try_to_binary(text, F.lit("base64")))


def _date(text: Column) -> Column:
    return F.when(text.rlike(f"^{_DATE}$"), text.try_cast("date"))


def _local_time(text: Column) -> Column:
    return F.when(text.rlike(f"^{_DATE}[T ]{_TIME}$"), text.try_cast("timestamp_ntz"))


_FROM_TEXT = {
    "string": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local_time,
}
"""Type → what converts texts to it."""
