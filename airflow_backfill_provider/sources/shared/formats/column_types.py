"""
Types of columns as Delta and Spark write them in JSON: a name, or a mapping for a nested type.

Every field, element and value may be null, whatever a format promises: a reader need not have written the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import quote

ColumnType = str | dict[str, Any]
"""A type, as parsed JSON."""

MOST_DIGITS = 38
"""The greatest precision of a decimal."""

_DDL_NAMES = {"timestamp": "TIMESTAMP_LTZ"}
"""Types whose usual names a session may understand otherwise."""

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def decimal_type(precision: int, scale: int) -> str:
    """Return the type of decimals."""
    return f"decimal({precision},{scale})"


def array_type(element: ColumnType) -> dict[str, Any]:
    """Return the type of arrays."""
    return {"type": "array", "elementType": element, "containsNull": True}


def map_type(value: ColumnType) -> dict[str, Any]:
    """Return the type of maps by texts."""
    return {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}


def struct_type(fields: Iterable[tuple[str, ColumnType]]) -> dict[str, Any]:
    """Return the type of structs with some fields."""
    return {
        "type": "struct",
        "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields],
    }


def require_distinct(names: Sequence[str], where: str) -> None:
    """
    Check that names differ by more than their case, which Spark and Delta ignore.

    :param where: what has the names, for the message.
    :raises InvalidJobError: if two are the same.
    """
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InvalidJobError(f"{where} has the field {name} twice, and Spark ignores case; rename or remove one")
        seen.add(name.lower())


def type_text(kind: ColumnType) -> str:
    """Return a type as Delta writes it: its name, or the JSON of a nested type."""
    return kind if isinstance(kind, str) else json.dumps(kind, separators=(",", ":"), ensure_ascii=False)


def parsed_type(text: str) -> ColumnType:
    """Return a type from its text."""
    return json.loads(text) if text.startswith("{") else text


def ddl_type(kind: ColumnType) -> str:
    """Return a type as Spark's parser reads it, with all names in quotes."""
    return _written(kind, lambda name: _DDL_NAMES.get(name) or sql_name(name), quote)


def sql_name(kind: ColumnType) -> str:
    """Return a type as SQL writes it, for messages."""
    return _written(kind, lambda name: _SQL_NAMES.get(name, name).upper(), str)


def _written(kind: ColumnType, plain: Callable[[str], str], named: Callable[[str], str]) -> str:
    """
    Return a type as SQL.

    :param plain: returns the name of a type that is not nested.
    :param named: returns a field's name.
    """
    if isinstance(kind, str):
        return plain(kind)

    def inside(part: str) -> str:
        return _written(kind[part], plain, named)

    match kind["type"]:
        case "array":
            return f"ARRAY<{inside('elementType')}>"
        case "map":
            return f"MAP<{inside('keyType')}, {inside('valueType')}>"
        case _:
            fields = (f"{named(field['name'])}: {_written(field['type'], plain, named)}" for field in kind["fields"])
            return f"STRUCT<{', '.join(fields)}>"
