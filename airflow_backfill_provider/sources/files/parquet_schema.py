"""
Compares the columns of a Parquet file with those of a definition.

Spark cuts integers to the declared type without a word, and fails on other types in ways that name no file. So a column
is only read where each value of the file has the same value in the declared type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.core.scan.decimals import digits_of, is_decimal
from airflow_backfill_provider.lake.stored_parquet import StoredParquet
from airflow_backfill_provider.sources.shared.formats.column_types import ColumnType, parsed_type, sql_name

_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
"""Type → its bits."""

_DIGITS_OF_INTEGERS = {8: 10, 16: 10, 32: 10, 64: 20}
"""Bits → the digits before the point that a decimal must have for Spark to read signed integers as such."""

_WHOLE_FLOAT_BITS = 32
"""The most bits of an integer that each fit a double, and that Spark reads as one."""


def empty_columns(file: StoredParquet, types: Mapping[str, str]) -> tuple[str, ...]:
    """Return the declared columns of which a file knows no type, because they have no value there."""
    empty = {field.name.lower() for field in file.schema_arrow if pa.types.is_null(field.type)}
    return tuple(name for name in types if name.lower() in empty)


def require_readable(file: StoredParquet, types: Mapping[str, str], where: str) -> None:
    """
    Refuse a file with a column whose values the declared type may not hold.

    :param types: the declared columns; one that the file lacks is null.
    :raises UpstreamError: with the file and the column.
    """
    physical = {column.path: column.physical_type for column in map(file.schema.column, range(len(file.schema)))}
    fields = _by_name(file.schema_arrow, where, types)
    for name, kind in types.items():
        if (found := fields.get(name.lower())) is None or pa.types.is_null(found.type):
            continue
        stored = _Stored(found.type, is_int96=physical.get(found.name) == "INT96")
        if problem := _problem(stored, parsed_type(kind), name):
            raise UpstreamError(
                f"{where}: {problem}, and put the file there under another name; rebuild the job if you change schema"
            )


def _by_name(fields: Iterable[pa.Field], where: str, used: Iterable[str]) -> dict[str, pa.Field]:
    """Return the fields by their names in small letters; refuse two that a used name may mean."""
    wanted = {name.lower() for name in used}
    found: dict[str, pa.Field] = {}
    for field in fields:
        if found.setdefault(field.name.lower(), field) is not field and field.name.lower() in wanted:
            raise UpstreamError(
                f"{where} has the columns {found[field.name.lower()].name} and {field.name}, and Spark ignores case; "
                "rename one of them"
            )
    return found


@dataclass(frozen=True, slots=True)
class _Stored:
    """
    The type of values in a file.

    :param is_int96: whether they are timestamps in the notation that Spark writes, which shows no other property.
    """

    type: pa.DataType
    is_int96: bool = False


def _problem(stored: _Stored, declared: ColumnType, path: str) -> str:
    """Return why values of a file's type are no values of a declared one; empty if they are."""
    stored = _Stored(_plain(stored.type), is_int96=stored.is_int96)
    if isinstance(declared, str):
        if _fits(stored, declared):
            return ""
    else:
        parts = _parts(stored.type, declared, path)
        if parts is not None:
            return next((problem for part in parts if (problem := _problem(*part))), "")
    return (
        f"column {path} is {_shown(stored.type)} there, whose values {sql_name(declared)} may not hold as they are; "
        f"{_advice(stored.type)}"
    )


def _parts(found: pa.DataType, declared: Mapping[str, Any], path: str) -> list[tuple[_Stored, Any, str]] | None:
    """Return the types within a nested one, with the declared ones; ``None`` if it is another kind of type."""
    match declared["type"]:
        case "array" if pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found):
            return [(_Stored(found.value_type), declared["elementType"], path)]
        case "map" if pa.types.is_map(found):
            key, item = _Stored(found.key_type), _Stored(found.item_type)
            return [(key, declared["keyType"], path), (item, declared["valueType"], path)]
        case "struct" if pa.types.is_struct(found):
            fields = _by_name(found, path, (one["name"] for one in declared["fields"]))
            return [
                (_Stored(fields[one["name"].lower()].type), one["type"], f"{path}.{one['name']}")
                for one in declared["fields"]
                if one["name"].lower() in fields
            ]
    return None


def _plain(found: pa.DataType) -> pa.DataType:
    """Return the type that a file has, whatever its writer called it."""
    if isinstance(found, pa.BaseExtensionType):
        return _plain(found.storage_type)
    return _plain(found.value_type) if pa.types.is_dictionary(found) else found


def _fits(stored: _Stored, declared: str) -> bool:
    if declared in _INTEGERS:
        return _bits(stored.type) <= _INTEGERS[declared]
    if is_decimal(declared):
        return _fits_decimal(stored.type, *digits_of(declared))
    if declared == "timestamp":
        # Without a zone it is in UTC, as in a text.
        return stored.is_int96 or _is_time(stored.type)
    if declared == "timestamp_ntz":
        return bool(not stored.is_int96 and _is_time(stored.type) and stored.type.tz is None)
    return _FITS[declared](stored.type)


def _is_time(found: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(found) and found.unit != "ns")


def _bits(found: pa.DataType) -> float:
    """Return the bits of a signed integer that holds all values of a type."""
    if not pa.types.is_integer(found):
        return float("inf")
    return float(found.bit_width * (1 if pa.types.is_signed_integer(found) else 2))


def _fits_decimal(found: pa.DataType, precision: int, scale: int) -> bool:
    if pa.types.is_signed_integer(found):
        return precision - scale >= _DIGITS_OF_INTEGERS[int(found.bit_width)]
    whole = precision - scale
    return bool(pa.types.is_decimal(found) and scale >= found.scale and whole >= found.precision - found.scale)


def _is_double(found: pa.DataType) -> bool:
    return pa.types.is_float64(found) or pa.types.is_float32(found) or _bits(found) <= _WHOLE_FLOAT_BITS


def _is_readable_text(found: pa.DataType) -> bool:
    # Bytes, too: texts are checked when they are read.
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_kind(found) for is_kind in kinds)


_FITS: Mapping[str, Callable[[pa.DataType], bool]] = {
    "boolean": pa.types.is_boolean,
    "float": pa.types.is_float32,
    "double": _is_double,
    "date": pa.types.is_date32,
    "string": _is_readable_text,
    "binary": lambda found: _is_readable_text(found) or pa.types.is_fixed_size_binary(found),
}
"""Declared type → whether Spark reads all values of a file's type as they are."""


def _shown(found: pa.DataType) -> str:
    """Return a file's type for messages."""
    if not pa.types.is_timestamp(found):
        return str(found)
    unit = "in nanoseconds" if found.unit == "ns" else "in milliseconds or microseconds"
    return f"a timestamp {unit}, {'with' if found.tz else 'without'} a zone"


def _advice(found: pa.DataType) -> str:
    """Return what to do about a type that does not fit: declare another one, if there is one, or write it anew."""
    if pa.types.is_timestamp(found) and not _is_time(found):
        return "write it in microseconds"
    declared = next((name for name in _CANDIDATES if _fits(_Stored(found), name)), None)
    if declared is None and pa.types.is_decimal(found):
        declared = f"decimal({found.precision},{found.scale})"
    if declared is None:
        return "write it in a type that can be declared"
    return f"declare it as {sql_name(declared)} and convert it in the query, or write it in the declared type"


_CANDIDATES = ("short", "integer", "long", "float", "double", "date", "timestamp", "boolean", "string", "binary")
"""Types that may be declared instead, narrow ones first."""
