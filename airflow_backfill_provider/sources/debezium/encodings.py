"""
How Debezium encodes the values of PostgreSQL's types, and so which columns the events and the database have alike.

A row that is read from the database must have the same values as its events. Debezium's settings and whoever lands the
events decide on an encoding. A column whose encoding is not known to be exact is refused.
"""

from __future__ import annotations

import json
from enum import Enum

from airflow_backfill_provider.core.scan.decimals import digits_of
from airflow_backfill_provider.sources.shared.postgresql.types import PostgresType

_AS_TEXT = frozenset(
    {"text", "varchar", "bpchar", "uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8"}
)
"""Types that Debezium passes on as PostgreSQL's text."""

_ALIKE = frozenset({"bool", "float4", "float8", "date", "timestamp", "timestamptz", "bytea", "numeric"})
_WHOLE = ("short", "integer", "long")
_SMALLEST = {"int2": 0, "int4": 1, "int8": 2, "oid": 2}

_MICROSECONDS_FROM = 4
"""The precision of a timestamp from which Debezium counts microseconds instead of milliseconds."""


class Encoding(Enum):
    """How a column's values are encoded in events."""

    ALIKE = "alike"
    """As the text of the database converts to the column's type."""
    DAYS = "days"
    """Days since 1970."""
    MILLISECONDS = "milliseconds"
    """Milliseconds since 1970, without a time zone."""
    MICROSECONDS = "microseconds"
    """Microseconds since 1970, without a time zone."""
    ISO_8601 = "iso_8601"
    """A text such as ``2026-01-31T10:15:00.5Z``."""


def encoding_of(column: PostgresType, event_type: str) -> Encoding | None:
    """
    Return how a column is encoded.

    :param column: the column's type in the database.
    :param event_type: the column's type in the events, as Delta writes it.
    :returns: ``None`` if it is not known to be exact.
    """
    if column.element is not None:
        is_alike = event_type.startswith("{") and _is_array_of(column.element, event_type)
        return Encoding.ALIKE if is_alike else None
    match column.name, event_type:
        case "date", "integer":
            return Encoding.DAYS
        case "timestamp", "long":
            precise = column.modifier < 0 or column.modifier >= _MICROSECONDS_FROM
            return Encoding.MICROSECONDS if precise else Encoding.MILLISECONDS
        case "timestamptz", "string":
            return Encoding.ISO_8601
    return Encoding.ALIKE if _is_alike(column, event_type) else None


def _is_alike(column: PostgresType, event_type: str) -> bool:
    if column.kind == "e" or column.name in _AS_TEXT:
        return event_type == "string"
    if column.name in _SMALLEST:
        return event_type in _WHOLE[_SMALLEST[column.name] :]
    if column.name == "numeric":
        return event_type in {"string", "double"} or _holds_all(event_type, column.delta_type)
    return column.name in _ALIKE and event_type == column.delta_type


def _holds_all(event_type: str, declared: str | None) -> bool:
    """Return whether a decimal type holds every value of another one."""
    if declared is None or not (event_type.startswith("decimal") and declared.startswith("decimal")):
        return False
    (digits, scale), (declared_digits, declared_scale) = digits_of(event_type), digits_of(declared)
    return scale >= declared_scale and digits - scale >= declared_digits - declared_scale


def _is_array_of(element: PostgresType, event_type: str) -> bool:
    found = json.loads(event_type)
    inner = found.get("elementType")
    return found.get("type") == "array" and isinstance(inner, str) and _is_alike(element, inner)
