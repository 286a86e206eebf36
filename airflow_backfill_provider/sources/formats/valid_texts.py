"""
Looks for texts that are no UTF-8 in values of any type.

Avro copies the bytes of texts without a look. In a Delta table they would stop other readers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.formats.column_types import ColumnType


def has_invalid_text(value: Column, kind: ColumnType) -> Column:
    """Return whether a value has a text that is no UTF-8; false if it is null."""
    found = _invalid(value, kind)
    return F.lit(False) if found is None else found


def _invalid(value: Column, kind: ColumnType) -> Column | None:
    """Return the condition, or ``None`` if no value of the type has texts."""
    if isinstance(kind, str):
        return F.coalesce(~F.is_valid_utf8(value), F.lit(False)) if kind == "string" else None
    match kind["type"]:
        case "array":
            return _any_invalid(value, kind["elementType"])
        case "map":
            keys = _any_invalid(F.map_keys(value), kind["keyType"])
            return _or(keys, _any_invalid(F.map_values(value), kind["valueType"]))
        case _:
            return _or(*(_invalid(value.getField(field["name"]), field["type"]) for field in kind["fields"]))


def _any_invalid(values: Column, kind: ColumnType) -> Column | None:
    if _invalid(values, kind) is None:
        return None
    return F.coalesce(F.exists(values, lambda value: has_invalid_text(value, kind)), F.lit(False))


def _or(*conditions: Column | None) -> Column | None:
    found: Iterable[Column] = [condition for condition in conditions if condition is not None]
    return reduce(or_, found) if found else None
