"""
Hashes of whole rows that two different rows share only by chance.

Spark's own hash of a row ignores nulls, treats 0.0 and -0.0 as equal, cannot hash maps, and hashes strings by their
collation. So each value is first turned into one that represents it exactly. Each row gets two hashes with different
salts and column orders, so that a collision in one does not mean a collision in the other.

Hashes are SQL expressions, because a merge takes its conditions as text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

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

_HALF = 32
"""Half of the bits of a hash."""


def row_hashes(fields: Sequence[StructField], prefix: str = "") -> tuple[Column, Column]:
    """
    Return two independent 64-bit hashes of a row with these columns, none of them null.

    :param fields: the columns; without any, all rows have the same hashes.
    :param prefix: SQL that comes before the name of each column.
    """
    first, second = _SALTS
    return F.expr(_salted(first, fields, prefix)), F.expr(_salted(second, fields[::-1], prefix))


def halves(hashed: Column) -> tuple[Column, Column]:
    """
    Return the upper and the lower half of a 64-bit hash as whole numbers; the hash is ``upper * 2**32 + lower``.

    A sum of hashes would overflow, and one of decimals is several times as slow as two of whole numbers.
    """
    return F.shiftright(hashed, _HALF), hashed.bitwiseAND(F.lit((1 << _HALF) - 1))


def sum_of(upper: int, lower: int) -> int:
    """Return the sum of hashes from the sums of their :func:`halves`."""
    return (upper << _HALF) + lower


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
    return _struct(_exact(value, kind, 0))


def _salted(salt: str, fields: Sequence[StructField], prefix: str) -> str:
    # The hash of a struct is that of its fields one after the other, but Spark makes an object of each struct.
    parts = (_exact(f"{prefix}{quote(field.name)}", field.dataType, 0) for field in fields)
    salted = itertools.chain([f"'{salt}'"], *parts)
    return f"xxhash64({', '.join(salted)})"


def _struct(parts: Iterable[str]) -> str:
    return f"struct({', '.join(parts)})"


def _exact(value: str, kind: DataType, depth: int) -> list[str]:
    """Return the SQL of values that together differ for any two different values."""
    # Spark's hash ignores nulls, so a flag marks them.
    return [f"isnull({value})", *_content(value, kind, depth)]


def _content(value: str, kind: DataType, depth: int) -> list[str]:
    match kind:
        case FloatType() | DoubleType():
            # Of all of Spark's functions that are no error for zero, only its text has the sign.
            return [value, f"{value} = 0 AND CAST({value} AS STRING) = '-0.0'"]
        case StringType():
            return [f"CAST({value} AS BINARY)"]
        case ArrayType() | MapType() | StructType() | VariantType():
            return _nested(value, kind, depth)
        case _:
            return [value]


def _nested(value: str, kind: ArrayType | MapType | StructType | VariantType, depth: int) -> list[str]:
    item = f"item_{depth}"
    match kind:
        case ArrayType(elementType=element):
            elements = _struct(_exact(item, element, depth + 1))
            return [f"size({value})", f"transform({value}, {item} -> {elements})"]
        case MapType(keyType=key, valueType=of_key):
            # Entries have no order.
            parts = [*_exact(f"{item}.key", key, depth + 1), *_exact(f"{item}.value", of_key, depth + 1)]
            entries = f"transform(map_entries({value}), {item} -> xxhash64({', '.join(parts)}))"
            return [f"size({value})", f"array_sort({entries})"]
        case StructType():
            of_fields = (_exact(f"{value}.{quote(field.name)}", field.dataType, depth) for field in kind.fields)
            return list(itertools.chain.from_iterable(of_fields))
        case _:
            return [f"to_json({value})", f"schema_of_variant({value})"]
