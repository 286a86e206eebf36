"""
The statistics of a new data file, as a Delta log has them, from the footer of the Parquet file.

A reader skips a file because of them, so a bound is left out unless it is certain. Floating-point numbers have none:
Parquet's leave out NaN, which Spark takes for the greatest number.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_backfill_provider.core.scan.decimals import is_decimal

_MOST_CHARACTERS = 32
"""The longest text that Delta's own writer puts into statistics."""

_GREATEST_CHARACTER = "\U0010ffff"

_WHOLE_NUMBERS = ("byte", "short", "integer", "long")
_MILLISECOND = dt.timedelta(milliseconds=1)

Bound = int | float | str | None


@dataclass(frozen=True, slots=True)
class _Leaf:
    """
    A column of a Parquet file.

    :param path: the names of the structs and the field; inside of an array or a map, only those around it.
    :param kind: the field's type, as Delta writes it; empty inside of an array or a map.
    """

    path: tuple[str, ...]
    kind: str = ""


def statistics_of(file: pq.FileMetaData, fields: Sequence[Mapping[str, Any]], indexed: int) -> str:
    """
    Return the statistics of a file.

    :param file: its footer.
    :param fields: the table's columns in the order of the file's, as Delta's schema has them.
    :param indexed: how many columns get more than a count, with nested fields counted; negative for all.
    :returns: JSON, for the ``stats`` of an ``add`` action.
    """
    leaves = list(_leaves(fields))
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    if len(leaves) == file.num_columns:
        for place, leaf in enumerate(leaves if indexed < 0 else leaves[:indexed]):
            if leaf.kind and file.schema.column(place).path == ".".join(leaf.path):
                chunks = [file.row_group(group).column(place) for group in range(file.num_row_groups)]
                low, high = _bounds(chunks, leaf.kind)
                _put(lows, leaf.path, low)
                _put(highs, leaf.path, high)
                _put(nulls, leaf.path, _null_count(chunks))
    found = {
        "numRecords": file.num_rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": nulls,
        "tightBounds": True,
    }
    return json.dumps(found, allow_nan=False)


def _leaves(fields: Sequence[Mapping[str, Any]], above: tuple[str, ...] = ()) -> Iterator[_Leaf]:
    for field in fields:
        yield from _leaves_of(field["type"], (*above, field["name"]))


def _leaves_of(kind: Any, path: tuple[str, ...]) -> Iterator[_Leaf]:
    if isinstance(kind, str):
        yield _Leaf(path, kind)
    elif kind["type"] == "struct":
        yield from _leaves(kind["fields"], path)
    else:
        parts = ("elementType",) if kind["type"] == "array" else ("keyType", "valueType")
        for part in parts:
            yield from (_Leaf(path) for _ in _leaves_of(kind[part], path))


def _put(found: dict[str, Any], path: Sequence[str], value: Bound) -> None:
    """Put a value into nested mappings, unless there is none."""
    if value is None:
        return
    for name in path[:-1]:
        found = found.setdefault(name, {})
    found[path[-1]] = value


def _null_count(chunks: Sequence[pq.ColumnChunkMetaData]) -> int | None:
    counts = [_nulls(chunk) for chunk in chunks]
    return None if None in counts else sum(count or 0 for count in counts)


def _nulls(chunk: pq.ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics
    return int(statistics.null_count) if statistics is not None and statistics.has_null_count else None


def _bounds(chunks: Sequence[pq.ColumnChunkMetaData], kind: str) -> tuple[Bound, Bound]:
    """Return a lower and an upper bound of a column's values, each only if it is certain."""
    filled = [chunk for chunk in chunks if _nulls(chunk) != chunk.num_values]
    if not filled or not all(chunk.statistics is not None and chunk.statistics.has_min_max for chunk in filled):
        return None, None
    try:
        low = min(chunk.statistics.min for chunk in filled)
        high = max(chunk.statistics.max for chunk in filled)
        return _written(low, kind), _written_above(high, kind)
    except (ValueError, OverflowError, pa.ArrowException):
        # Python has no such value: a year outside of its calendar, or a text that is not valid UTF-8.
        return None, None


def _written(low: Any, kind: str) -> Bound:
    """Return a lower bound as a log has it."""
    if kind in _WHOLE_NUMBERS:
        return int(low)
    if kind == "string":
        return str(low)[:_MOST_CHARACTERS]
    if kind == "date":
        return str(low.isoformat())
    if kind.startswith("timestamp"):
        return _instant(low)
    return _number(low) if is_decimal(kind) else None


def _written_above(high: Any, kind: str) -> Bound:
    """Return an upper bound as a log has it."""
    if kind == "string":
        return _text_above(str(high))
    if kind.startswith("timestamp") and high.microsecond % 1000:
        # Statistics have whole milliseconds.
        return _instant(high + _MILLISECOND)
    return _written(high, kind)


def _text_above(high: str) -> str | None:
    """Return a short text that is not less than a text; ``None`` if the text goes on with the greatest character."""
    if len(high) <= _MOST_CHARACTERS:
        return high
    if high[_MOST_CHARACTERS] == _GREATEST_CHARACTER:
        return None
    return high[:_MOST_CHARACTERS] + _GREATEST_CHARACTER


def _instant(value: dt.datetime) -> str:
    zone = "" if value.tzinfo is None else "Z"
    return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone


def _number(value: Decimal) -> float | None:
    """Return a decimal as the number that JSON shows with the same digits, if there is one."""
    number = float(value)
    return number if Decimal(repr(number)) == value else None
