"""
The database of a worked example: one small table, and a log with a transaction for each commit.

It writes the messages of PostgreSQL's logical replication, as the package decodes them. So the package's own code makes
a change log of them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.sources.postgres.logged_changes import offset_of_commit
from airflow_backfill_provider.sources.postgres.marks import MARK_PREFIX, Marks
from airflow_backfill_provider.sources.postgres.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)

BEGINNING = 100
"""The newest position of the log when the example begins."""


class _Unsigned(Marks):
    """Marks without signatures, which a reader of the example would stumble over."""

    def text(self, name: str) -> str:
        return name

    def read(self, content: bytes) -> str:
        return content.decode()


MARKS = _Unsigned("")

_BYTES, _BYTES_BEFORE_COMMIT = 100, 90
"""The size of a transaction in the log, and of what comes before the record of its commit."""

_OID = 16_384
_COLUMNS = ("order_id", "amount")
_BEGIN_TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True)
class Write:
    """
    A statement on one row; on all rows without a key.

    :param key: the row's key before.
    :param row: the row afterwards; ``None`` if it is gone.
    """

    sql: str
    key: int | None = None
    row: tuple[int, int] | None = None


def insert(key: int, amount: int) -> Write:
    """Return an INSERT."""
    return Write(f"INSERT INTO orders VALUES ({key}, {amount})", row=(key, amount))


def update(key: int, amount: int) -> Write:
    """Return an UPDATE of a row's amount."""
    return Write(f"UPDATE orders SET amount = {amount} WHERE order_id = {key}", key, (key, amount))


def move(key: int, new_key: int, amount: int) -> Write:
    """Return an UPDATE of a row's key; the amount stays."""
    return Write(f"UPDATE orders SET order_id = {new_key} WHERE order_id = {key}", key, (new_key, amount))


def delete(key: int) -> Write:
    """Return a DELETE."""
    return Write(f"DELETE FROM orders WHERE order_id = {key}", key)


TRUNCATE = Write("TRUNCATE orders")

Transaction = Sequence[Write]


class ExampleDatabase:
    """
    The table ``orders``.

    :param rows: amounts by key.
    """

    def __init__(self, rows: Mapping[int, int]) -> None:
        self.rows = dict(rows)
        self.position = BEGINNING
        self._messages: list[Message] = []
        self._history = {0: dict(rows)}

    def commit(self, transaction: Transaction) -> int:
        """Run statements in one transaction, and return its offset."""
        messages = [message for write in transaction for message in self._run(write)]
        return self._log(messages)

    def mark(self, text: str) -> int:
        """Write a mark, and return its offset."""
        return self._log([LogicalMessage(True, self.position, MARK_PREFIX, MARKS.text(text).encode())])

    def peek(self, after: int) -> Iterator[Message]:
        """Yield the messages that come after a position; the table's columns come first."""
        yield Relation(
            oid=_OID,
            namespace="public",
            name="orders",
            identity="d",
            columns=tuple(RelationColumn(name, name == "order_id", 20, -1) for name in _COLUMNS),
        )
        begins = False
        for message in self._messages:
            if isinstance(message, Begin):
                begins = offset_of_commit(message.final_lsn) > after
            if begins:
                yield message

    def rows_at(self, offset: int) -> dict[int, int]:
        """Return the rows as of an offset, which the real database cannot."""
        return self._history[max(known for known in self._history if known <= offset)]

    def _run(self, write: Write) -> Iterator[Message]:
        if write.key is None and write.row is None:
            self.rows.clear()
            yield Truncate((_OID,))
            return
        if write.key is not None:
            del self.rows[write.key]
        if write.row is not None:
            key, amount = write.row
            self.rows[key] = amount
        new = None if write.row is None else tuple(map(str, write.row))
        old = None if write.key is None else (str(write.key), None)
        if new is None and old is not None:
            yield Delete(_OID, old, old_is_key=True)
        elif new is not None and old is None:
            yield Insert(_OID, new)
        elif new is not None and old is not None:
            moved = old[0] != new[0]
            yield Update(_OID, old if moved else None, old_is_key=moved, new=new)

    def _log(self, messages: Sequence[Message]) -> int:
        begins = self.position + _BYTES_BEFORE_COMMIT
        self.position += _BYTES
        number = self.position // _BYTES
        committed_at = _BEGIN_TIME + dt.timedelta(minutes=number)
        self._messages += [Begin(begins, committed_at, number), *messages, Commit(self.position)]
        self._history[offset_of_commit(begins)] = dict(self.rows)
        return offset_of_commit(begins)
