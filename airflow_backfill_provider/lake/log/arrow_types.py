"""The columns of a table as Arrow has them, if none of them has nested values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_backfill_provider.core.scan.decimals import digits_of

_TYPES: Mapping[str, pa.DataType] = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types as Delta and as Arrow write them; decimals are alike."""


def arrow_schema(fields: Sequence[Mapping[str, Any]]) -> pa.Schema:
    """
    Return columns as Arrow has them.

    :param fields: the columns, as Delta's schema has them.
    """
    return pa.schema([(field["name"], _arrow_type(field["type"])) for field in fields])


def _arrow_type(kind: str) -> pa.DataType:
    return _TYPES[kind] if kind in _TYPES else pa.decimal128(*digits_of(kind))
