"""
The stamps on rows of control tables, by which a row that a stranger edited, added or took away is known.

A table's writes are numbered from 1. Each row carries the number of the write that made it, and a checksum over that
number and all of its content; the table's own transaction says how many writes there were. A checksum tells of rows
that were edited or come from elsewhere, a gap in the numbers of rows that are lost, and rows older than the newest
write of a table that was restored.

Stamps find damage, not forgery: whoever knows how they are made can make them.
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
    """Return a table's columns after those of the stamps: Delta keeps statistics of the first columns only."""
    return pa.schema([*_FIELDS, *schema])


def stamped(rows: pa.Table, version: int) -> pa.Table:
    """
    Stamp rows that one write makes.

    :param version: the number of the write.
    """
    numbered = rows.add_column(0, _FIELDS[0], pa.array([version] * rows.num_rows, pa.int64()))
    return numbered.add_column(1, _FIELDS[1], _checksums(numbered))


def require_stamps(rows: pa.Table, table: str) -> None:
    """
    Refuse rows that are not as they were written.

    :param rows: with their stamps.
    :param table: its location, for the message.
    :raises StateError: naming the first such row.
    """
    wrong = pc.not_equal(_checksums(rows.drop_columns([CHECKSUM])), rows.column(CHECKSUM))
    index = pc.index(pc.fill_null(wrong, True), True).as_py()
    if index >= 0:
        raise StateError(
            f"control table {table}: row {_name(rows, index)} is not what was written there; something else changed or "
            f"added it: {what_to_do(table)}"
        )
    _require_once(rows, table)


def _require_once(rows: pa.Table, table: str) -> None:
    """Refuse a row that is there twice, as it was written."""
    if rows.num_rows == 1:
        # That of most settings, which every poke of a sensor reads.
        return
    stamps = rows.group_by([VERSION, CHECKSUM], use_threads=False).aggregate([([], "count_all")])
    for stamp in stamps.filter(pc.greater(stamps.column("count_all"), 1)).to_pylist():
        same = pc.and_(*(pc.equal(rows.column(name), stamp[name]) for name in (VERSION, CHECKSUM)))
        alike = rows.filter(same)
        # Of very many rows, two may have one checksum.
        if len(set(map(repr, alike.to_pylist()))) < alike.num_rows:
            raise StateError(
                f"control table {table}: row {_name(alike, 0)} is there twice; something else added it: "
                f"{what_to_do(table)}"
            )


def require_writes(rows: pa.Table, newest: int, table: str) -> None:
    """
    Refuse rows of a table's newest writes if those of a write are missing between them, or at their end.

    :param rows: with their stamps; all that the table has from some write on, not none.
    :param newest: the number of the newest write.
    :raises StateError: naming the first write whose rows are gone.
    """
    there = set(rows.column(VERSION).to_pylist())
    for version in range(min(there), newest + 1):
        if version not in there:
            raise lost(version, newest, table)


def lost(version: int, newest: int, table: str) -> StateError:
    """Return the error that says that the rows of a write are gone."""
    return StateError(
        f"control table {table}: row {VERSION} {version} of {newest} is missing; something else removed "
        f"rows or restored the table: {what_to_do(table)}"
    )


def _name(rows: pa.Table, index: int) -> str:
    """Say which row, by its number and its first column of content."""
    first = rows.column_names[len(_FIELDS)]
    number, value = (rows.column(name)[index].as_py() for name in (VERSION, first))
    return f"{VERSION} {number} ({first} {value})"


def _checksums(rows: pa.Table) -> pa.Array:
    """Return a checksum of each row's content: its values as text, in which null is no text and texts have lengths."""
    if not rows.num_rows:
        return pa.array([], pa.int64())
    parts: list[pa.ChunkedArray] = []
    for column in rows.columns:
        text = _as_text(column)
        parts.append(text)
        if text.type == column.type:
            parts.append(pc.binary_length(text).cast(pa.string()))
    joined = pc.binary_join_element_wise(*parts, _SEPARATOR, null_handling="replace", null_replacement=_NULL)
    # The tables have tens of thousands of rows, and stamps find damage only: no need for a slower one.
    return pa.array(map(zlib.crc32, joined.cast(pa.binary()).to_pylist()), pa.int64())


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_binary(column.type):
        return pa.chunked_array([[None if value is None else value.hex() for value in column.to_pylist()]], pa.string())
    return column.cast(pa.string())
