"""The rows of a change log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any

import pyarrow as pa

Texts = Mapping[str, str | None]
"""The values of a row as text, by column; without a column whose value is unknown."""

_TEXTS = pa.map_(pa.string(), pa.string())

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),
        pa.field("committed_at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("old", _TEXTS),
        pa.field("new", _TEXTS),
    ]
)
"""The columns of a change log. A change is identified by its offset and its number."""

OF_ALL_TABLES = ""
"""The table's id of a row that is of no table, or of all."""

UNREADABLE = "\0"
"""Stands for a value whose bytes are no text. Texts of databases do not have this character."""

_BATCH = 20_000
_BATCH_CHARACTERS = 16 << 20
"""How many rows are converted at a time, and about how much text: one row may be as long as a thousand others."""


class LoggedKind(StrEnum):
    """What a row of a change log is about."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    TRUNCATE = "truncate"
    PART_REMOVED = "part_removed"
    """Changes of the table's rows, near this offset, that the database did not log or return. The text says why."""
    GAP = "gap"
    """The log does not have the changes up to this offset, of all tables. The text says why."""
    LANDED = "landed"
    """The log has had the changes up to this offset since the row's time, which is not the time of a transaction."""
    PARTITIONS = "partitions"
    """The table's partitions from this offset on, by id; the old row has what identifies their places."""
    COLUMNS = "columns"
    """The table's columns and their types from this offset on; the old row has their numbers, as far as known."""
    REWRITTEN = "rewritten"
    """Columns of the table whose values were changed near this offset without changes of rows, and how."""
    MARK = "mark"
    """A message that this package wrote itself, to know that everything before it is landed."""


OF_ROWS = (LoggedKind.INSERT, LoggedKind.UPDATE, LoggedKind.DELETE, LoggedKind.TRUNCATE)
"""The kinds of rows that are changes of a table's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedChange:
    """
    A row of a change log.

    :param offset: the offset of its transaction's commit.
    :param number: the row's number within the transaction.
    :param transaction: the transaction's id.
    :param committed_at: when the transaction was committed.
    :param table: the table's id; empty for a row that is of all tables.
    :param old: the old row, or its key columns; ``None`` if there was none.
    :param new: the new row; of :attr:`LoggedKind.COLUMNS` the types, of a mark or a gap its text. A column that is
        missing here was not changed, and the database did not log its value.
    """

    offset: int
    number: int
    transaction: int
    committed_at: dt.datetime
    table: str
    kind: LoggedKind
    old: Texts | None = None
    new: Texts | None = None


def gap(offset: int, why: str, at: dt.datetime) -> LoggedChange:
    """Return the row that says why the changes up to an offset are not in the log."""
    return of_all_tables(LoggedKind.GAP, offset, at, why)


def of_all_tables(kind: LoggedKind, offset: int, at: dt.datetime, text: str | None = None) -> LoggedChange:
    """Return a row that this package writes itself, apart from transactions."""
    return LoggedChange(
        offset=offset,
        number=0,
        transaction=0,
        committed_at=at,
        table=OF_ALL_TABLES,
        kind=kind,
        new=None if text is None else {"text": text},
    )


def stored(row: Mapping[str, Any]) -> LoggedChange:
    """Return a stored row."""
    texts = {name: None if row[name] is None else dict(row[name]) for name in ("old", "new")}
    return LoggedChange(**{**row, "kind": LoggedKind(row["kind"]), **texts})


def arrow_batches(changes: Iterable[LoggedChange]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches, so that a large transaction need not fit into memory."""
    for batch in _batches(changes):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([change.offset for change in batch], pa.int64()),
                pa.array([change.number for change in batch], pa.int64()),
                pa.array([change.transaction for change in batch], pa.int64()),
                pa.array([change.committed_at for change in batch], SCHEMA.field("committed_at").type),
                pa.array([change.table for change in batch], pa.string()),
                pa.array([change.kind.value for change in batch], pa.string()),
                _maps([change.old for change in batch]),
                _maps([change.new for change in batch]),
            ],
            schema=SCHEMA,
        )


def _batches(changes: Iterable[LoggedChange]) -> Iterator[list[LoggedChange]]:
    batch: list[LoggedChange] = []
    characters = 0
    for change in changes:
        batch.append(change)
        characters += _characters(change.old) + _characters(change.new)
        if len(batch) >= _BATCH or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _characters(texts: Texts | None) -> int:
    return sum(map(len, filter(None, texts.values()))) if texts else 0


def _maps(rows: Sequence[Texts | None]) -> pa.Array:
    """Return a map for each row; from flat lists, because Arrow takes several times as long over a list of pairs."""
    present = [texts for texts in rows if texts is not None]
    return pa.MapArray.from_arrays(
        [0, *accumulate(0 if texts is None else len(texts) for texts in rows)],
        pa.array([name for texts in present for name in texts], pa.string()),
        pa.array([value for texts in present for value in texts.values()], pa.string()),
        type=_TEXTS,
        mask=pa.array([texts is None for texts in rows], pa.bool_()),
    )
