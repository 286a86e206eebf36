"""
Converts the values of JSON fields to the types of columns, exactly.

A value is a marked text (see :mod:`.json_text`), or ``true`` or ``false``. What the type cannot hold becomes null, and
so does what it could only hold in part: the digits of a decimal or of a second that are too many, and the zone of a
time without one.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.scan.decimals import digits_of, is_decimal
from airflow_backfill_provider.sources.shared.formats.column_types import sql_name
from airflow_backfill_provider.sources.shared.formats.json_text import NUMBER, TEXT
from airflow_backfill_provider.sources.shared.formats.years import is_outside

_INTEGERS = frozenset({"byte", "short", "integer", "long"})
_NUMBERS = _INTEGERS | {"float", "double"}

_END = r"\z"
"""The end of a text; a dollar would also match before a line break at the end."""

_WHOLE = "^-?[0-9]+$"
_DATE = "(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6}0*)?)?"
_EDGES = "^(0001-01-01|9999-12-31)"
"""The days from which a zone leads out of the years that others know."""
_ZONE = "Z|[+-][0-9]{2}:[0-9]{2}"
_BASE64_UNIT = 4
_BASE64 = rf"^[A-Za-z0-9+/]*={{0,2}}{_END}"

_NUMBER_PARTS = "^-?([0-9]+)(?:[.]([0-9]+))?[eE]([+-]?[0-9]+)$"
_MOST_EXPONENT_DIGITS = 4
"""An exponent with more digits is of no decimal but zero."""


def scalar(value: str, delta_type: str) -> str:
    """
    Return a field's value in a column's type; null if it does not fit.

    :param value: a marked text, ``true`` or ``false``.
    """
    if delta_type == "boolean":
        return f"CASE {value} WHEN 'true' THEN true WHEN 'false' THEN false END"
    if delta_type in _NUMBERS or is_decimal(delta_type):
        return from_number(_after(NUMBER, value), delta_type)
    return from_text(_after(TEXT, value), delta_type)


def from_text(text: str, delta_type: str) -> str:
    """Return a value whose type JSON writes as a text; null if it does not fit."""
    return _FROM_TEXT[delta_type](text)


def from_number(number: str, delta_type: str) -> str:
    """Return a number from its digits; null if it does not fit."""
    if is_decimal(delta_type):
        return _decimal(number, delta_type)
    parsed = f"try_cast({number} AS {sql_name(delta_type)})"
    if delta_type in _INTEGERS:
        return f"CASE WHEN {_matches(number, _WHOLE)} THEN {parsed} END"
    # Java also reads numbers that JSON does not know, such as 1d and 0x1p3.
    is_finite = f"abs({parsed}) < {sql_name(delta_type)}('Infinity')"
    return f"CASE WHEN {_matches(number, _DIGITS)} AND {is_finite} THEN {parsed} END"


_DIGITS = "^-?[0-9]+([.][0-9]+)?([eE][-+]?[0-9]+)?$"


def _after(mark: str, value: str) -> str:
    return f"CASE WHEN startswith({value}, {text_literal(mark)}) THEN substr({value}, 2) END"


def _matches(text: str, pattern: str) -> str:
    return f"rlike({text}, {text_literal(pattern)})"


def _instant(text: str) -> str:
    """Return an instant; without a zone it is in UTC, whatever the session's zone is."""
    # Spark knows no minutes with a zone behind them.
    with_seconds = f"concat(substr({text}, 1, 16), ':00', substr({text}, 17))"
    whole = f"if(substr({text}, 17, 1) = ':', {text}, {with_seconds})"
    zoned = f"concat({whole}, if({_matches(text, f'({_ZONE}){_END}')}, '', 'Z'))"
    instant = f"try_cast({zoned} AS TIMESTAMP_LTZ)"
    is_right = _matches(text, f"^{_DATE}[T ]{_TIME}({_ZONE})?{_END}")
    leads_out = f"{_matches(text, _EDGES)} AND {is_outside(instant, 'timestamp')}"
    return f"CASE WHEN {is_right} AND NOT coalesce({leads_out}, true) THEN {instant} END"


def _decimal(number: str, delta_type: str) -> str:
    """Return a decimal, unless it has more digits after the point than the type: Spark would round it."""
    _, scale = digits_of(delta_type)
    plain = _matches(number, f"^-?[0-9]+([.][0-9]{{0,{scale}}}0*)?$")
    # Few producers write exponents, and looking at their digits costs more than all else.
    return (
        f"CASE WHEN {plain} THEN try_cast({number} AS {delta_type})"
        f" WHEN {_matches(number, '[eE]')} THEN {_with_exponent(number, delta_type, scale)} END"
    )


def _with_exponent(number: str, delta_type: str, scale: int) -> str:
    whole, fraction, exponent = (
        f"regexp_extract({number}, {text_literal(_NUMBER_PARTS)}, {part})" for part in (1, 2, 3)
    )
    digits = f"TRIM(TRAILING '0' FROM concat({whole}, {fraction}))"
    ends_with = f"length({whole}) + length({fraction}) - length({digits})"
    is_short = f"length(regexp_replace({exponent}, '^[+-]?0*', '')) <= {_MOST_EXPONENT_DIGITS}"
    after_point = f"length({fraction}) - CASE WHEN {is_short} THEN try_cast({exponent} AS INT) END - ({ends_with})"
    return (
        f"CASE WHEN {digits} = '' THEN CAST(0 AS {delta_type})"
        f" WHEN {is_short} AND {after_point} <= {scale} THEN try_cast({number} AS {delta_type}) END"
    )


def _text(text: str) -> str:
    return text


def _binary(text: str) -> str:
    is_whole = f"{_matches(text, _BASE64)} AND length({text}) % {_BASE64_UNIT} = 0"
    return f"CASE WHEN {is_whole} THEN try_to_binary({text}, 'base64') END"


def _date(text: str) -> str:
    return f"CASE WHEN {_matches(text, f'^{_DATE}{_END}')} THEN try_cast({text} AS DATE) END"


def _local_time(text: str) -> str:
    return f"CASE WHEN {_matches(text, f'^{_DATE}[T ]{_TIME}{_END}')} THEN try_cast({text} AS TIMESTAMP_NTZ) END"


_FROM_TEXT = {
    "string": _text,
    "binary": _binary,
    "date": _date,
    "timestamp": _instant,
    "timestamp_ntz": _local_time,
}
"""Type → what converts texts to it."""
