"""
The peer: an incremental snapshot as Debezium takes it, in one thread, through SQL.

Each chunk of rows is read between two watermarks that are written to the database. Then the log is read up to the
second one. A row of the chunk that changed between the watermarks is left out, because the change came with the log.
What is left is appended, as events, to a Delta table. So the table has an event for each row and each change; the time
does not include making a view of them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import write_deltalake
from psycopg import sql

from airflow_backfill_provider.sources.postgres.pgoutput import Delete, Insert, Relation, Update, decode
from bench.cdc.orders import DATABASE, SCHEMA
from bench.cdc.plain_copy import parsed
from tests.postgres_server import PostgresServer

BATCH = 100_000
"""Events of a commit."""

SEQUENCE, OPERATION = "__sequence", "__op"
EVENTS = pa.schema([pa.field(SEQUENCE, pa.int64()), pa.field(OPERATION, pa.string()), *SCHEMA])

_NAME = "bench_peer"
_WATERMARK = "watermark"

Texts = tuple[str | None, ...]

_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, SCHEMA.names))
_CHUNK = sql.SQL("SELECT {} FROM orders WHERE order_id > %s ORDER BY order_id LIMIT %s").format(_COLUMNS)
_LOG = (
    "SELECT data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)"
)


@dataclass
class IncrementalSnapshot:
    """
    One snapshot.

    :param path: the Delta table of events.
    :param chunk: rows of a chunk.
    """

    server: PostgresServer
    path: Path
    chunk: int
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _waiting_rows: int = 0
    _sequence: int = 0
    _names: dict[int, str] = field(default_factory=dict)

    def take(self) -> None:
        """Read all rows, and the changes meanwhile."""
        with self._session() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS watermarks (name text)")
            connection.execute(
                sql.SQL("CREATE PUBLICATION {} FOR TABLE orders, watermarks").format(sql.Identifier(_NAME))
            )
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [_NAME])
            last: int | None = 0
            while last is not None:
                last = self._take_chunk(connection, last)
            self._commit()

    def catch_up(self) -> None:
        """Read the changes since, and end."""
        with self._session() as connection:
            self._add_changes(list(self._changes(connection)))
            self._commit()
            connection.execute("SELECT pg_drop_replication_slot(%s)", [_NAME])
            connection.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(_NAME)))

    def _take_chunk(self, connection: psycopg.Connection[Any], after: int) -> int | None:
        """Add the next rows, without those that changed while they were read; return the last key, if there is one."""
        connection.execute("INSERT INTO watermarks VALUES ('low')")
        rows = connection.execute(_CHUNK, [after, self.chunk], binary=True).fetchall()
        connection.execute("INSERT INTO watermarks VALUES ('high')")
        window = {row[0]: row for row in rows}
        changes, is_open = [], False
        for change in self._changes(connection):
            operation, row = change
            if operation == _WATERMARK:
                is_open = row[0] == "low"
                continue
            changes.append(change)
            if is_open:
                window.pop(int(row[0] or 0), None)
        self._add_changes(changes)
        self._add_rows(list(window.values()))
        return rows[-1][0] if rows else None

    def _changes(self, connection: psycopg.Connection[Any]) -> Iterator[tuple[str, Texts]]:
        """Yield the changes that the log has."""
        for (message,) in connection.execute(_LOG, [_NAME, _NAME], binary=True):
            match decode(message):
                case Relation() as relation:
                    self._names[relation.oid] = relation.name
                case Insert() as insert if self._names[insert.oid] == "watermarks":
                    yield _WATERMARK, _texts(insert.new)
                case Insert() | Update() as change:
                    yield "u", _texts(change.new)
                case Delete() as delete:
                    yield "d", _texts(delete.old)

    def _add_changes(self, changes: Sequence[tuple[str, Texts]]) -> None:
        lines = io.StringIO()
        csv.writer(lines).writerows(row for operation, row in changes if operation != _WATERMARK)
        operations = [operation for operation, _ in changes if operation != _WATERMARK]
        if operations:
            table = pa.Table.from_batches(parsed(lines.getvalue().encode()), SCHEMA).combine_chunks()
            self._add(pa.array(operations), table.to_batches()[0])

    def _add_rows(self, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            values = zip(*rows, strict=True)
            columns = [pa.array(column, kind) for column, kind in zip(values, SCHEMA.types, strict=True)]
            self._add(pa.array(["r"] * len(rows)), pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    def _add(self, operations: pa.Array, rows: pa.RecordBatch) -> None:
        numbers = pa.array(range(self._sequence, self._sequence + rows.num_rows), pa.int64())
        self._waiting.append(pa.RecordBatch.from_arrays([numbers, operations, *rows.columns], schema=EVENTS))
        self._sequence += rows.num_rows
        self._waiting_rows += rows.num_rows
        if self._waiting_rows >= BATCH:
            self._commit()

    def _commit(self) -> None:
        if self._waiting:
            write_deltalake(str(self.path), pa.Table.from_batches(self._waiting, EVENTS), mode="append")
            self._waiting, self._waiting_rows = [], 0

    def _session(self) -> psycopg.Connection[Any]:
        return self.server.connect(DATABASE, options="-c TimeZone=UTC")


def _texts(values: tuple[object, ...]) -> Texts:
    """Return texts; no value of this table is stored out of line."""
    return tuple(value if isinstance(value, str) else None for value in values)
