"""
Looks into values of any type for scalars that have a property, such as texts that are no UTF-8.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_backfill_provider.sources.shared.formats.column_types import ColumnType
from airflow_backfill_provider.sources.shared.formats.json_values import field_of

Path = tuple[str, ...]
"""Where a scalar stands in a value: the names of fields, :data:`ELEMENTS`, :data:`KEYS` and :data:`VALUES`."""

ELEMENTS, KEYS, VALUES = "[element]", "[key]", "[value]"

Condition = Callable[[str, str, Path], str]
"""Returns the condition on a scalar, given its expression, its type and its path; empty if it always holds not."""


def has_part(value: str, kind: ColumnType, condition: Condition) -> str:
    """Return whether a value has a scalar for which a condition holds; ``false`` if it is null, or no type has it."""
    return _part(value, kind, condition, ()) or "false"


def _part(value: str, kind: ColumnType, condition: Condition, path: Path) -> str:
    """Return the condition on a value, or an empty text if no value of the type meets it."""
    if isinstance(kind, str):
        found = condition(value, kind, path)
        return f"coalesce({found}, false)" if found else ""
    match kind["type"]:
        case "array":
            return _any(value, kind["elementType"], condition, (*path, ELEMENTS))
        case "map":
            keys = _any(f"map_keys({value})", kind["keyType"], condition, (*path, KEYS))
            return _or(keys, _any(f"map_values({value})", kind["valueType"], condition, (*path, VALUES)))
        case _:
            fields = kind["fields"]
            return _or(
                *(_part(field_of(value, one["name"]), one["type"], condition, (*path, one["name"])) for one in fields)
            )


def _any(values: str, kind: ColumnType, condition: Condition, path: Path) -> str:
    if not (found := _part("item", kind, condition, path)):
        return ""
    return f"coalesce(exists({values}, item -> {found}), false)"


def _or(*conditions: str) -> str:
    found = [condition for condition in conditions if condition]
    return f"({' OR '.join(found)})" if found else ""
