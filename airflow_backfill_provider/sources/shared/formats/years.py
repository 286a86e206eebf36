"""
The years that every reader of a Delta table knows: 1 to 9999.

Spark knows later and earlier ones, and writes them into a table. Other programs then cannot open the table, or cannot
read its rows.
"""

from __future__ import annotations

_FIRST_MICROSECOND, _LAST_MICROSECOND = -62_135_596_800_000_000, 253_402_300_799_999_999
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896

_OUTSIDE = {
    "date": f"unix_date({{value}}) NOT BETWEEN {_FIRST_DAY} AND {_LAST_DAY}",
    "timestamp": f"unix_micros({{value}}) NOT BETWEEN {_FIRST_MICROSECOND} AND {_LAST_MICROSECOND}",
    "timestamp_ntz": (
        "{value} NOT BETWEEN TIMESTAMP_NTZ '0001-01-01 00:00:00' AND TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"
    ),
}


def is_outside(value: str, kind: str) -> str:
    """
    Return the condition that a value is a time outside of these years, as an expression of Spark SQL.

    :param value: an expression of the value.
    :param kind: its type, as Delta writes it.
    :returns: an empty text if no value of the type is.
    """
    return _OUTSIDE[kind].replace("{value}", value) if kind in _OUTSIDE else ""
