"""
Looks for texts that are no UTF-8 in values of any type.

Avro copies the bytes of texts without a look. In a Delta table they would stop other readers.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from airflow_backfill_provider.sources.formats.column_types import ColumnType
from airflow_backfill_provider.sources.formats.json_values import field_of


def has_invalid_text(value: str, kind: ColumnType) -> str:
    """Return whether a value has a text that is no UTF-8; false if it is null."""
    return _invalid(value, kind) or "false"


def _invalid(value: str, kind: ColumnType) -> str:
    """Return the condition, or an empty text if no value of the type has texts."""
    if isinstance(kind, str):
        return f"coalesce(NOT is_valid_utf8({value}), false)" if kind == "string" else ""
    match kind["type"]:
        case "array":
            return _any_invalid(value, kind["elementType"])
        case "map":
            keys = _any_invalid(f"map_keys({value})", kind["keyType"])
            return _or(keys, _any_invalid(f"map_values({value})", kind["valueType"]))
        case _:
            return _or(*(_invalid(field_of(value, field["name"]), field["type"]) for field in kind["fields"]))


def _any_invalid(values: str, kind: ColumnType) -> str:
    if not (found := _invalid("item", kind)):
        return ""
    return f"coalesce(exists({values}, item -> {found}), false)"


def _or(*conditions: str) -> str:
    found = [condition for condition in conditions if condition]
    return f"({' OR '.join(found)})" if found else ""
