"""
The types of columns that Spark reads values of Avro into, from the text of a schema.

These are the rules of ``spark-avro``. Unions of several types are refused, because Spark makes structs of them whose
fields depend on the order of the union.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import (
    MOST_DIGITS,
    ColumnType,
    array_type,
    decimal_type,
    map_type,
    require_distinct,
    struct_type,
)

_PRIMITIVES = {
    "boolean": "boolean",
    "int": "integer",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}

_LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
"""Avro's type and its logical type → Delta's type; other logical types change nothing."""

_WIDER = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
"""Unions that Spark reads as one of their types."""

_OF_SPARK = "spark.sql.catalyst.type"
"""A property with which Spark itself writes types that Avro lacks, such as intervals."""


def avro_column_type(schema: str, where: str) -> ColumnType:
    """
    Return the type of the values that a schema describes.

    :param where: where the schema is, for messages.
    :raises InvalidJobError: if the text is no Avro schema, or Spark has no type for it.
    """
    try:
        parsed = json.loads(schema)
    except ValueError:
        raise InvalidJobError(f"{where} is no Avro schema, because it is no JSON") from None
    return _Schema(where).type_of(parsed, "", "the value")


def qualified(name: str, namespace: str) -> str:
    """Return the full name of a type whose name stands in a namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def named_types(schema: Any, namespace: str = "") -> Iterator[tuple[str, tuple[Any, str]]]:
    """Yield the types of a schema that have names: the full name, the type, and the namespace within it."""
    match schema:
        case list():
            for branch in schema:
                yield from named_types(branch, namespace)
        case {"type": "record" | "error" | "enum" | "fixed", "name": str() as name}:
            full = qualified(name, str(schema.get("namespace", namespace)))
            yield full, (schema, _namespace_of(full))
            for field in schema.get("fields", ()):
                yield from named_types(field["type"], _namespace_of(full))
        case dict():
            for part in ("type", "items", "values"):
                yield from named_types(schema.get(part), namespace)


class _Schema:
    """
    A schema that is read once from its beginning to its end.

    :param where: where it is, for messages.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._named: dict[str, ColumnType | None] = {}
        """Full name → type; ``None`` while the type is being read."""

    def type_of(self, schema: Any, namespace: str, place: str) -> ColumnType:
        """
        Return the type of a part of the schema.

        :param namespace: that of the enclosing type.
        :param place: what has the type, for messages.
        """
        if isinstance(schema, list):
            return self._union(schema, namespace, place)
        if isinstance(schema, str):
            return _PRIMITIVES[schema] if schema in _PRIMITIVES else self._reference(schema, namespace, place)
        if not isinstance(schema, Mapping):
            raise self._error(place, "has a type that is neither a name, an object nor a list")
        if _OF_SPARK in schema:
            raise self._error(place, f"has the property {_OF_SPARK}, for a type that Avro lacks; remove it")
        return self._object(schema, namespace, place)

    def _object(self, schema: Mapping[str, Any], namespace: str, place: str) -> ColumnType:
        kind = schema.get("type")
        match kind:
            case "array":
                return array_type(self.type_of(self._part(schema, "items", place), namespace, f"an element of {place}"))
            case "map":
                return map_type(self.type_of(self._part(schema, "values", place), namespace, f"a value of {place}"))
            case "record" | "error":
                return self._record(schema, namespace, place)
            case "enum" | "fixed":
                named = "string" if kind == "enum" else self._decimal(schema, place) or "binary"
                return self._remember(schema, namespace, place, named)
            case "long" if schema.get("logicalType") == "time-micros":
                raise self._error(place, "is a time of day (time-micros), and Delta has no such type; use a long")
            case str() if kind in _PRIMITIVES:
                decimal = self._decimal(schema, place) if kind == "bytes" else None
                return decimal or _LOGICAL.get((kind, str(schema.get("logicalType"))), _PRIMITIVES[kind])
        return self.type_of(kind, namespace, place)

    def _record(self, schema: Mapping[str, Any], namespace: str, place: str) -> ColumnType:
        full = self._full_name(schema, namespace, place)
        self._named[full] = None
        fields = self._part(schema, "fields", place)
        if not isinstance(fields, list) or not all(isinstance(field, dict) and "name" in field for field in fields):
            raise self._error(place, "is a record whose fields are no list of objects with names")
        if not fields:
            raise self._error(place, "is a record without fields, and Delta has no such type")
        within, own = _namespace_of(full), "" if place == "the value" else f"{place}."
        types = [
            (
                str(field["name"]),
                self.type_of(self._part(field, "type", place), within, f"{own}{field['name']}"),
            )
            for field in fields
        ]
        require_distinct([name for name, _ in types], f"{self._where}: record {full}")
        self._named[full] = struct_type(types)
        return struct_type(types)

    def _union(self, branches: list[Any], namespace: str, place: str) -> ColumnType:
        others = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        if len(others) == 1:
            return self.type_of(others[0], namespace, place)
        names = {branch for branch in others if isinstance(branch, str)}
        if len(names) == len(others) and (wider := _WIDER.get(frozenset(names))):
            return wider
        raise self._error(
            place,
            "is a union of several types, and a column has one; give the schema to read with a record with a field "
            "for each type, or one of the types and null",
        )

    def _decimal(self, schema: Mapping[str, Any], place: str) -> str | None:
        if schema.get("logicalType") != "decimal":
            return None
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= MOST_DIGITS:
            return decimal_type(precision, scale)
        raise self._error(
            place, f"is a decimal without a precision of 1 to {MOST_DIGITS} and a scale of at most as many digits"
        )

    # ------------------------------------------------------------------------------------------------------ names

    def _reference(self, name: str, namespace: str, place: str) -> ColumnType:
        if name == "null":
            raise self._error(place, "is always null, and Delta has no such type; remove it")
        full = qualified(name, namespace)
        if full not in self._named:
            full = name
        if full not in self._named:
            raise self._error(place, f"has the type {name}, which is neither Avro's nor defined before")
        found = self._named[full]
        if found is None:
            raise self._error(place, f"has the type {name}, which contains itself; Spark has no such type")
        return found

    def _remember(self, schema: Mapping[str, Any], namespace: str, place: str, kind: str) -> ColumnType:
        self._named[self._full_name(schema, namespace, place)] = kind
        return kind

    def _full_name(self, schema: Mapping[str, Any], namespace: str, place: str) -> str:
        name = self._part(schema, "name", place)
        if not isinstance(name, str):
            raise self._error(place, "has a name that is no text")
        return qualified(name, schema.get("namespace", namespace))

    def _part(self, schema: Mapping[str, Any], name: str, place: str) -> Any:
        if name not in schema:
            raise self._error(place, f'lacks "{name}"')
        return schema[name]

    def _error(self, place: str, problem: str) -> InvalidJobError:
        return InvalidJobError(f"{self._where}: {place} {problem}")


def _namespace_of(full: str) -> str:
    return full.rpartition(".")[0]
