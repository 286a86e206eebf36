"""
Hashes of whole rows that two different rows share only by chance.

Spark's own hash of a row ignores nulls, treats 0.0 and -0.0 as equal, cannot hash maps, and hashes strings by their
collation. So each value is first turned into one that represents it exactly. Each row gets two hashes with different
salts and column orders, so that a collision in one does not mean a collision in the other.
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

from airflow_backfill_provider.sources.shared.by_key import column

_SALTS = ("airflow-backfill", "verification")


def row_hashes(schema: StructType) -> tuple[Column, Column]:
    """Return two independent 64-bit hashes of a row with these columns, none of them null."""
    values = [exact(column(field.name), field.dataType) for field in schema.fields]
    first, second = _SALTS
    return F.xxhash64(F.lit(first), *values), F.xxhash64(F.lit(second), *reversed(values))


def exact(value: Column, kind: DataType) -> Column:
    """Return a struct whose Spark hash differs for any two different values, nulls and signed zeros included."""
    # Spark's hash ignores nulls, so a flag marks them.
    return F.struct(value.isNull(), _content(value, kind))


def _content(value: Column, kind: DataType) -> Column:
    match kind:
        case FloatType() | DoubleType():
            # Any two numbers have different texts, also 0.0 and -0.0.
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
