"""
Stamps on rows of control tables, which detect rows that something else edited, added or removed.

A table's writes are numbered from 1. Each row has the number of its write, and a checksum over this number and its
content. The table's own transaction records the number of the newest write. A wrong checksum means that a row was
edited or added, a gap in the numbers that rows were removed, and a missing newest write that the table was restored.

Stamps detect damage, not forgery: they are not secret.
"""

from __future__ import annotations

import zlib

import pyarrow as pa
import pyarrow.compute as pc

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.state.recovery import what_to_do

VERSION = "__version"
CHECKSUM = "__checksum"

_FIELDS = (pa.field(VERSION, pa.int64()), pa.field(CHECKSUM, pa.int64()))
_NULL = "\x00"
_SEPARATOR = "\x1f"


def stamped_schema(schema: pa.Schema) -> pa.Schema:
    """Return the stamps' columns and then a table's own: Delta keeps statistics of the first columns only."""
    return pa.schema([*_FIELDS, *schema])


def stamped(rows: pa.Table, version: int) -> pa.Table:
    """
    Return the rows of one write with their stamps.

    :param version: the number of the write.
    """
    numbered = rows.add_column(0, _FIELDS[0], pa.array([version] * rows.num_rows, pa.int64()))
    return numbered.add_column(1, _FIELDS[1], _checksums(numbered))


def require_stamps(rows: pa.Table, table: str) -> None:
    """
    Refuse rows that were edited or added.

    :param rows: rows with their stamps.
    :param table: the table's location, for the message.
    :raises StateError: naming the first such row.
    """
    wrong = pc.not_equal(_checksums(rows.drop_columns([CHECKSUM])), rows.column(CHECKSUM))
    index = pc.index(pc.fill_null(wrong, True), True).as_py()
    if index >= 0:
        raise StateError(
            f"control table {table}: row {_name(rows, index)} has a wrong checksum, so something else changed or added "
            f"it; {what_to_do(table)}"
        )
    _require_once(rows, table)


def _require_once(rows: pa.Table, table: str) -> None:
    """Refuse an exact copy of a row."""
    if rows.num_rows == 1:
        # A shortcut for settings: most jobs have a single record, and each poke of a sensor reads it.
        return
    stamps = rows.group_by([VERSION, CHECKSUM], use_threads=False).aggregate([([], "count_all")])
    for stamp in stamps.filter(pc.greater(stamps.column("count_all"), 1)).to_pylist():
        same = pc.and_(*(pc.equal(rows.column(name), stamp[name]) for name in (VERSION, CHECKSUM)))
        alike = rows.filter(same)
        # Among many rows, two different ones may have the same checksum.
        if len(set(map(repr, alike.to_pylist()))) < alike.num_rows:
            raise StateError(
                f"control table {table}: row {_name(alike, 0)} is repeated, so something else added it; "
                f"{what_to_do(table)}"
            )


def require_writes(rows: pa.Table, newest: int, table: str) -> None:
    """
    Refuse rows of a table's newest writes if the rows of one of these writes are missing.

    :param rows: all rows from some write on, with their stamps; not empty.
    :param newest: the number of the newest write.
    :raises StateError: naming the first write without rows.
    """
    there = set(rows.column(VERSION).to_pylist())
    for version in range(min(there), newest + 1):
        if version not in there:
            raise lost(version, newest, table)


def lost(version: int, newest: int, table: str) -> StateError:
    """Return the error for missing rows of a write."""
    return StateError(
        f"control table {table}: row {VERSION} {version} of {newest} is missing, so something else removed rows or "
        f"restored the table; {what_to_do(table)}"
    )


def _name(rows: pa.Table, index: int) -> str:
    """Describe a row by the number of its write and its first column of content."""
    first = rows.column_names[len(_FIELDS)]
    number, value = (rows.column(name)[index].as_py() for name in (VERSION, first))
    return f"{VERSION} {number} ({first} {value})"


def _checksums(rows: pa.Table) -> pa.Array:
    """Return a checksum of each row's values as text, with the lengths of texts; nulls differ from all texts."""
    if not rows.num_rows:
        return pa.array([], pa.int64())
    parts: list[pa.ChunkedArray] = []
    for column in rows.columns:
        text = _as_text(column)
        parts.append(text)
        if text.type == column.type:
            parts.append(pc.binary_length(text).cast(pa.string()))
    joined = pc.binary_join_element_wise(*parts, _SEPARATOR, null_handling="replace", null_replacement=_NULL)
    # CRC-32 is fast for tens of thousands of rows, and sufficient to detect damage.
    return pa.array(map(zlib.crc32, joined.cast(pa.binary()).to_pylist()), pa.int64())


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return pa.chunked_array([[None if value is None else value.hex() for value in column.to_pylist()]], pa.string())
    return column.cast(pa.string())
