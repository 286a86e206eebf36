"""
Hashes of whole rows that no two different rows share but by chance.

Spark's own hash of a row passes over nulls, takes both zeros for one, hashes no maps, and strings by their collation;
so each value is first written as one that says all of it. Two hashes are made of each row, each of its own salt and
order of columns, so that what one of them fails to tell apart, the other one tells.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from airflow_backfill_provider.engine.job_rows import column

_SALTS = ("airflow-backfill", "verification")


def row_hashes(schema: StructType) -> tuple[Column, Column]:
    """Return two independent 64-bit hashes of a row with these columns, none of them null."""
    values = [exact(column(field.name), field.dataType) for field in schema.fields]
    first, second = _SALTS
    return F.xxhash64(F.lit(first), *values), F.xxhash64(F.lit(second), *reversed(values))


def exact(value: Column, kind: DataType) -> Column:
    """Return a struct that Spark hashes to the same only for the same value, nulls and bits of numbers included."""
    # A hash passes over nulls; the flag says where one was.
    return F.struct(value.isNull(), _content(value, kind))


def _content(value: Column, kind: DataType) -> Column:
    match kind:
        case FloatType() | DoubleType():
            # Its text tells 0.0 from -0.0, and any other two numbers.
            return value.cast("string")
        case StringType():
            return value.cast("binary")
        case ArrayType() | MapType() | StructType() | VariantType():
            return F.struct(*_parts(value, kind))
        case _:
            return value


def _parts(value: Column, kind: ArrayType | MapType | StructType | VariantType) -> list[Column]:
    match kind:
        case ArrayType(elementType=element):
            return [F.size(value), F.transform(value, lambda item: exact(item, element))]
        case MapType(keyType=key, valueType=item):
            # Entries have no order.
            entries = F.transform(
                F.map_entries(value), lambda entry: F.xxhash64(exact(entry["key"], key), exact(entry["value"], item))
            )
            return [F.size(value), F.array_sort(entries)]
        case StructType():
            return [exact(value.getField(field.name), field.dataType) for field in kind.fields]
        case _:
            return [F.to_json(value), F.schema_of_variant(value)]
