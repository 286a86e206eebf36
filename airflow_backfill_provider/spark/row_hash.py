"""
Hashes of whole rows that two different rows share only by chance.

Spark's own hash of a row ignores nulls, treats 0.0 and -0.0 as equal, cannot hash maps, and hashes strings by their
collation. So each value is first turned into one that represents it exactly. Each row gets two hashes with different
salts and column orders, so that a collision in one does not mean a collision in the other.

Hashes are SQL expressions, because a merge takes its conditions as text.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from airflow_backfill_provider.core.job.sql import quote

_SALTS = ("airflow-backfill", "verification")


def row_hashes(fields: Sequence[StructField], prefix: str = "") -> tuple[Column, Column]:
    """
    Return two independent 64-bit hashes of a row with these columns, none of them null.

    :param fields: the columns.
    :param prefix: SQL that comes before the name of each column.
    """
    first, second = _SALTS
    return F.expr(_salted(first, fields, prefix)), F.expr(_salted(second, fields[::-1], prefix))


def row_hash(schema: StructType, prefix: str = "") -> str:
    """
    Return the SQL of the first of a row's hashes, to compare a few rows with each other.

    :param prefix: as for :func:`row_hashes`.
    """
    return _salted(_SALTS[0], schema.fields, prefix)


def exact(value: str, kind: DataType) -> str:
    """
    Return the SQL of a struct whose Spark hash differs for any two different values, nulls and signed zeros included.

    :param value: the SQL of the value.
    """
    return _exact(value, kind, 0)


def _salted(salt: str, fields: Sequence[StructField], prefix: str) -> str:
    values = [f"'{salt}'", *(exact(f"{prefix}{quote(field.name)}", field.dataType) for field in fields)]
    return f"xxhash64({', '.join(values)})"


def _exact(value: str, kind: DataType, depth: int) -> str:
    # Spark's hash ignores nulls, so a flag marks them.
    return f"struct(isnull({value}), {_content(value, kind, depth)})"


def _content(value: str, kind: DataType, depth: int) -> str:
    match kind:
        case FloatType() | DoubleType():
            # Any two numbers have different texts, also 0.0 and -0.0.
            return f"CAST({value} AS STRING)"
        case StringType():
            return f"CAST({value} AS BINARY)"
        case ArrayType() | MapType() | StructType() | VariantType():
            return f"struct({', '.join(_parts(value, kind, depth))})"
        case _:
            return value


def _parts(value: str, kind: ArrayType | MapType | StructType | VariantType, depth: int) -> list[str]:
    item = f"item_{depth}"
    match kind:
        case ArrayType(elementType=element):
            return [f"size({value})", f"transform({value}, {item} -> {_exact(item, element, depth + 1)})"]
        case MapType(keyType=key, valueType=of_key):
            # Entries have no order.
            parts = (_exact(f"{item}.key", key, depth + 1), _exact(f"{item}.value", of_key, depth + 1))
            entries = f"transform(map_entries({value}), {item} -> xxhash64({', '.join(parts)}))"
            return [f"size({value})", f"array_sort({entries})"]
        case StructType():
            return [_exact(f"{value}.{quote(field.name)}", field.dataType, depth) for field in kind.fields]
        case _:
            return [f"to_json({value})", f"schema_of_variant({value})"]
