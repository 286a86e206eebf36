"""The database: one table, and a log of its changes, which is written in the transaction of each change."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from airflow_backfill_provider.sources.shared.change_log.changes import LoggedChange, LoggedKind, Texts

MARK = "mark"
TYPES = {"id": "long", "day": "date", "name": "string"}
"""The columns of the table, with their types as Delta writes them. The database writes a day as ``31.12.2025``."""


class ToyServer:
    """
    A database.

    :param file: the SQLite file.
    """

    def __init__(self, file: str) -> None:
        self._file = file

    @contextmanager
    def session(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            yield connection

    def make(self) -> None:
        with self.session() as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, day TEXT, name TEXT)")
            connection.execute(
                "CREATE TABLE log (position INTEGER PRIMARY KEY, at TEXT, kind TEXT, old TEXT, new TEXT)"
            )

    def put(self, key: int, day: str, name: str) -> None:
        """Insert or change a row."""
        with self.session() as connection:
            old = self._row(connection, key)
            connection.execute("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", (key, day, name))
            kind = LoggedKind.INSERT if old is None else LoggedKind.UPDATE
            self._log(connection, kind.value, old, {"id": str(key), "day": day, "name": name})

    def delete(self, key: int) -> None:
        with self.session() as connection:
            old = self._row(connection, key)
            connection.execute("DELETE FROM orders WHERE id = ?", (key,))
            self._log(connection, LoggedKind.DELETE.value, old, None)

    def mark(self, text: str) -> None:
        with self.session() as connection:
            self._log(connection, MARK, None, {"text": text})

    def position(self) -> int:
        with self.session() as connection:
            return int(connection.execute("SELECT coalesce(max(position), 0) FROM log").fetchone()[0])

    def rows(self) -> list[tuple[int, str, str]]:
        with self.session() as connection:
            return list(connection.execute("SELECT id, day, name FROM orders ORDER BY id"))

    def changes(self, after: int, up_to: int) -> Iterator[LoggedChange]:
        """Yield the changes in ``(after, up_to]``."""
        with self.session() as connection:
            query = (
                "SELECT position, at, kind, old, new FROM log WHERE position > ? AND position <= ? ORDER BY position"
            )
            for position, at, kind, old, new in connection.execute(query, (after, up_to)):
                yield LoggedChange(
                    offset=position,
                    number=1,
                    transaction=position,
                    committed_at=dt.datetime.fromisoformat(at),
                    table="" if kind == MARK else "orders",
                    kind=LoggedKind(kind),
                    old=None if old is None else json.loads(old),
                    new=None if new is None else json.loads(new),
                )

    def _row(self, connection: sqlite3.Connection, key: int) -> Texts | None:
        row = connection.execute("SELECT id, day, name FROM orders WHERE id = ?", (key,)).fetchone()
        return None if row is None else dict(zip(TYPES, map(str, row), strict=True))

    def _log(self, connection: sqlite3.Connection, kind: str, old: Texts | None, new: Texts | None) -> None:
        texts = [None if row is None else json.dumps(dict(row)) for row in (old, new)]
        at = dt.datetime.now(dt.UTC).isoformat()
        connection.execute("INSERT INTO log (at, kind, old, new) VALUES (?, ?, ?, ?)", (at, kind, *texts))
