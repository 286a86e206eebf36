"""
The used columns with their types as of the job's creation, even if nested columns have new fields.

``SELECT *`` means the columns as of the job's creation, and the fields of nested columns as of then. So the query and
the view don't see fields that were added later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from airflow_backfill_provider.core.job.sql import quote


def as_created(rows: DataFrame, types: Mapping[str, str]) -> list[Column]:
    """
    Return the used columns of some rows, without new fields of nested columns.

    :param types: the used columns and their types as of the job's creation, as Delta writes them.
    """
    if not any(_is_nested(kind) for kind in types.values()):
        return [F.col(quote(name)) for name in types]
    # With Spark Connect, reading the schema calls the server.
    found = {field.name: field.dataType for field in rows.schema.fields}
    return [
        _parts(F.col(quote(name)), json.loads(kind), found[name]).alias(name)
        if _is_nested(kind) and name in found
        else F.col(quote(name))
        for name, kind in types.items()
    ]


def _is_nested(kind: str) -> bool:
    return kind.startswith("{")


def _parts(value: Column, created: Any, found: DataType) -> Column:
    """Return a value without the fields that its type did not have; unchanged if there are none."""
    if _is_as_created(created, found):
        return value
    match found:
        case StructType():
            types = {field.name: field.dataType for field in found.fields}
            parts = [
                _parts(value.getField(part["name"]), part["type"], types[part["name"]]).alias(part["name"])
                for part in created["fields"]
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case ArrayType(elementType=element):
            return F.transform(value, lambda item: _parts(item, created["elementType"], element))
        case MapType(valueType=item_type):
            return F.transform_values(value, lambda _, item: _parts(item, created["valueType"], item_type))
    return value


def _is_as_created(created: Any, found: DataType) -> bool:
    match found:
        case StructType():
            names = [part["name"] for part in created["fields"]]
            return names == found.fieldNames() and all(
                _is_as_created(part["type"], field.dataType)
                for part, field in zip(created["fields"], found.fields, strict=True)
            )
        case ArrayType(elementType=element):
            return _is_as_created(created["elementType"], element)
        case MapType(valueType=item):
            return _is_as_created(created["valueType"], item)
    return True
