"""The limit: ``COPY`` of the whole table into a Delta table, in one transaction."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
from deltalake import write_deltalake
from pyarrow import csv

from bench.cdc.orders import DATABASE, SCHEMA
from tests.postgres_server import PostgresServer

_BATCH_BYTES = 16 << 20

_CONVERSION = csv.ConvertOptions(
    column_types=SCHEMA,
    null_values=[""],
    strings_can_be_null=True,
    quoted_strings_can_be_null=False,
    true_values=["t"],
    false_values=["f"],
)
_COLUMNS = csv.ReadOptions(column_names=SCHEMA.names)


def copy_table(server: PostgresServer, path: Path) -> None:
    """Copy the table."""
    with (
        server.connect(DATABASE, options="-c TimeZone=UTC") as connection,
        connection.cursor() as cursor,
        cursor.copy(f"COPY orders ({', '.join(SCHEMA.names)}) TO STDOUT (FORMAT csv)") as copied,
    ):
        batches = (batch for text in _texts(copied) for batch in parsed(text))
        write_deltalake(str(path), pa.RecordBatchReader.from_batches(SCHEMA, batches))


def parsed(text: bytes) -> list[pa.RecordBatch]:
    """Return rows from lines of CSV, as ``COPY`` writes them."""
    table = csv.read_csv(io.BytesIO(text), read_options=_COLUMNS, convert_options=_CONVERSION)
    batches: list[pa.RecordBatch] = table.cast(SCHEMA).to_batches()
    return batches


def _texts(copied: psycopg.Copy) -> Iterator[bytes]:
    """Yield some megabytes of whole lines at a time: each message of the server is one row."""
    lines: list[bytes | bytearray | memoryview] = []
    size = 0
    while line := copied.read():
        lines.append(line)
        size += len(line)
        if size > _BATCH_BYTES:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)
