"""
Decodes JSON objects on Spark, exactly: an object with a field that does not fit its column's type is unreadable.

Spark reads the fields as marked texts (see :mod:`.json_text`). They are converted one by one, and a field that has a
text but no value does not fit.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from typing import Any

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.sources.shared.formats.column_types import (
    ColumnType,
    ddl_type,
    map_type,
    sql_name,
    struct_type,
)
from airflow_backfill_provider.sources.shared.formats.json_scalars import scalar
from airflow_backfill_provider.sources.shared.formats.json_text import TEXT, malformed, marked
from airflow_backfill_provider.sources.shared.formats.once import once

_CORRUPT = own_columns(()).named("corrupt")
"""Where Spark puts a text of which a field has another type; no marked name is like it."""


def json_value(text: str, delta_type: dict[str, Any]) -> str:
    """
    Return a struct with the value and the error; either is null.

    :param text: a text.
    :param delta_type: the type of a struct.
    """
    return once(text, "text", lambda text: once(malformed(text), "error", lambda error: _read(text, error, delta_type)))


def strictly_read(text: str, delta_type: dict[str, Any], corrupt: str) -> str:
    """
    Return what Spark reads of a text, as strictly as it can.

    :param delta_type: the type of a struct.
    :param corrupt: the field of the struct into which Spark puts a text that it cannot read.
    """
    whole = struct_type([*((field["name"], field["type"]) for field in delta_type["fields"]), (corrupt, "string")])
    options = {
        "mode": "PERMISSIVE",
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "columnNameOfCorruptRecord": corrupt,
    }
    return f"from_json({text}, {text_literal(ddl_type(whole))}, {map_literal(options)})"


def map_literal(values: dict[str, str]) -> str:
    """Return a map of texts."""
    return f"map({', '.join(text_literal(text) for item in values.items() for text in item)})"


def field_of(value: str, name: str) -> str:
    """Return a field of a struct by its exact name."""
    return f"{value}[{text_literal(name)}]"


def _read(text: str, error: str, delta_type: dict[str, Any]) -> str:
    def judged(whole: str, raw: str, value: str) -> str:
        container = f"CASE WHEN {field_of(raw, _CORRUPT)} IS NOT NULL THEN {_container_error(whole, delta_type)} END"
        wrong = f"coalesce({error}, {container}, {_error(raw, value, delta_type, '')})"
        return once(
            wrong,
            "wrong",
            lambda wrong: f"named_struct('value', CASE WHEN {wrong} IS NULL THEN {value} END, 'error', {wrong})",
        )

    return once(
        f"CASE WHEN {error} IS NULL THEN {marked(text)} END",
        "whole",
        lambda whole: once(
            strictly_read(whole, _marked_type(delta_type), _CORRUPT),
            "raw",
            lambda raw: once(_converted(raw, delta_type), "value", lambda value: judged(whole, raw, value)),
        ),
    )


# ---------------------------------------------------------------------------------------------- what Spark reads first


def _marked_type(kind: ColumnType) -> Any:
    """Return a type with marked names, in which all values are texts."""
    if isinstance(kind, str):
        return "string"
    match kind["type"]:
        case "array":
            return {**kind, "elementType": _marked_type(kind["elementType"])}
        case "map":
            return map_type(_marked_type(kind["valueType"]))
        case _:
            return struct_type([(TEXT + field["name"], _marked_type(field["type"])) for field in kind["fields"]])


def _container_error(text: str, delta_type: dict[str, Any]) -> str:
    """Return the first field that is no array or object as its type is, or has such a field; it is read alone."""
    nested = [field for field in delta_type["fields"] if not isinstance(field["type"], str)]
    otherwise = text_literal("is no JSON object of the format's schema")
    found = [*(_of_container(text, field) for field in nested), otherwise]
    return f"coalesce({', '.join(found)})"


def _of_container(text: str, field: dict[str, Any]) -> str:
    alone = strictly_read(text, _marked_type({"type": "struct", "fields": [field]}), _CORRUPT)
    return f"CASE WHEN {field_of(alone, _CORRUPT)} IS NOT NULL THEN {_no(field['name'], field['type'])} END"


# ------------------------------------------------------------------------------------------------ what is made of it


def _converted(raw: str, kind: ColumnType) -> str:
    if isinstance(kind, str):
        return scalar(raw, kind)
    match kind["type"]:
        case "array":
            return f"transform({raw}, item -> {_converted('item', kind['elementType'])})"
        case "map":
            values = f"transform_values({raw}, (name, item) -> {_converted('item', kind['valueType'])})"
            return f"transform_keys({values}, (name, item) -> substr(name, {len(TEXT) + 1}))"
        case _:
            fields = ", ".join(
                f"{text_literal(field['name'])}, {_converted(field_of(raw, TEXT + field['name']), field['type'])}"
                for field in kind["fields"]
            )
            return f"CASE WHEN {raw} IS NOT NULL THEN named_struct({fields}) END"


def _error(raw: str, value: str, kind: ColumnType, path: str) -> str:
    """Return the first error of a value and its parts; null if there is none."""
    if isinstance(kind, str):
        return f"CASE WHEN {raw} IS NOT NULL AND {value} IS NULL THEN {_no(path, kind)} END"
    match kind["type"]:
        case "array":
            return _first_error(raw, value, kind["elementType"], path)
        case "map":
            return _first_error(f"map_values({raw})", f"map_values({value})", kind["valueType"], path)
        case _:
            errors = [
                _error(field_of(raw, TEXT + field["name"]), field_of(value, field["name"]), field["type"], within)
                for field in kind["fields"]
                for within in [f"{path}.{field['name']}" if path else field["name"]]
            ]
            return f"coalesce({', '.join(errors)})"


def _first_error(raw: str, value: str, kind: ColumnType, path: str) -> str:
    errors = f"zip_with({raw}, {value}, (one, other) -> {_error('one', 'other', kind, path)})"
    return f"get(filter({errors}, error -> error IS NOT NULL), 0)"


def _no(path: str, kind: ColumnType) -> str:
    return text_literal(f"field {path} is no {sql_name(kind)}")
