"""
Decodes JSON objects on Spark, exactly: an object with a field that does not fit its column's type is unreadable.

Spark reads the fields as marked texts (see :mod:`.json_text`). They are converted one by one, and a field that has a
text but no value does not fit.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType as SparkArray
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

from airflow_backfill_provider.core.columns import own_columns
from airflow_backfill_provider.sources.formats.column_types import ColumnType, sql_name
from airflow_backfill_provider.sources.formats.json_scalars import scalar
from airflow_backfill_provider.sources.formats.json_text import TEXT, malformed, marked
from airflow_backfill_provider.sources.formats.once import once

_CORRUPT = own_columns(()).named("corrupt")
"""Where Spark puts a text of which a field has another type; no marked name is like it."""

READ_STRICTLY = {"mode": "PERMISSIVE", "allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
"""Options with which Spark reads JSON as strictly as it can."""

_OPTIONS = {**READ_STRICTLY, "columnNameOfCorruptRecord": _CORRUPT}


def json_value(text: Column, delta_type: dict[str, Any]) -> Column:
    """
    Return a struct with the value and the error; either is null.

    :param text: a text.
    :param delta_type: the type of a struct.
    """
    return once(text, lambda one: once(malformed(one), lambda error: _well_formed(one, error, delta_type)))


def _well_formed(text: Column, error: Column, delta_type: dict[str, Any]) -> Column:
    return once(F.when(error.isNull(), marked(text)), lambda whole: _read(whole, error, delta_type))


def _read(whole: Column, error: Column, delta_type: dict[str, Any]) -> Column:
    return once(
        F.from_json(whole, _spark_struct(delta_type, _CORRUPT), _OPTIONS),
        lambda raw: once(
            _converted(raw, delta_type),
            lambda value: once(
                F.coalesce(
                    error,
                    F.when(raw.getField(_CORRUPT).isNotNull(), _container_error(whole, delta_type)),
                    _error(raw, value, delta_type, ""),
                ),
                lambda wrong: F.struct(F.when(wrong.isNull(), value).alias("value"), wrong.alias("error")),
            ),
        ),
    )


# ---------------------------------------------------------------------------------------------- what Spark reads first


def _spark_struct(delta_type: dict[str, Any], *extra: str) -> StructType:
    fields = [StructField(TEXT + field["name"], _spark_type(field["type"])) for field in delta_type["fields"]]
    return StructType([*fields, *(StructField(name, StringType()) for name in extra)])


def _spark_type(kind: ColumnType) -> DataType:
    if isinstance(kind, str):
        return StringType()
    match kind["type"]:
        case "array":
            return SparkArray(_spark_type(kind["elementType"]))
        case "map":
            return MapType(StringType(), _spark_type(kind["valueType"]))
        case _:
            return _spark_struct(kind)


def _container_error(text: Column, delta_type: dict[str, Any]) -> Column:
    """Return the first field that is no array or object as its type is, or has such a field; it is read alone."""
    nested = [field for field in delta_type["fields"] if not isinstance(field["type"], str)]
    found = F.coalesce(*(_of_container(text, field) for field in nested)) if nested else F.lit(None)
    return F.coalesce(found, F.lit("is no JSON object of the format's schema"))


def _of_container(text: Column, field: dict[str, Any]) -> Column:
    alone = F.from_json(text, _spark_struct({"fields": [field]}, _CORRUPT), _OPTIONS)
    return F.when(alone.getField(_CORRUPT).isNotNull(), F.lit(_no(field["name"], field["type"])))


# ------------------------------------------------------------------------------------------------ what is made of it


def _converted(raw: Column, kind: ColumnType) -> Column:
    if isinstance(kind, str):
        return scalar(raw, kind)
    match kind["type"]:
        case "array":
            return F.transform(raw, lambda item: _converted(item, kind["elementType"]))
        case "map":
            values = F.transform_values(raw, lambda _, item: _converted(item, kind["valueType"]))
            return F.transform_keys(values, lambda key, _: key.substr(F.lit(len(TEXT) + 1), F.length(key)))
        case _:
            fields = [
                _converted(raw.getField(TEXT + field["name"]), field["type"]).alias(field["name"])
                for field in kind["fields"]
            ]
            return F.when(raw.isNotNull(), F.struct(*fields))


def _error(raw: Column, value: Column, kind: ColumnType, path: str) -> Column:
    """Return the first error of a value and its parts; null if there is none."""
    if isinstance(kind, str):
        return F.when(raw.isNotNull() & value.isNull(), F.lit(_no(path, kind)))
    match kind["type"]:
        case "array":
            return _first_error(raw, value, kind["elementType"], path)
        case "map":
            return _first_error(F.map_values(raw), F.map_values(value), kind["valueType"], path)
        case _:
            return F.coalesce(
                *(
                    _error(raw.getField(TEXT + field["name"]), value.getField(field["name"]), field["type"], within)
                    for field in kind["fields"]
                    for within in [f"{path}.{field['name']}" if path else field["name"]]
                )
            )


def _first_error(raw: Column, value: Column, kind: ColumnType, path: str) -> Column:
    errors = F.zip_with(raw, value, lambda one, other: _error(one, other, kind, path))
    return F.get(F.filter(errors, lambda error: error.isNotNull()), F.lit(0))


def _no(path: str, kind: ColumnType) -> str:
    return f"field {path} is no {sql_name(kind)}"
