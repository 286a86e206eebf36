"""
The upstream of the long run, and its writer: a separate process, so that its memory is not measured.

A write is one commit with updates, inserts, deletes, and now and then a key that moves. Its rows depend on its number
alone. As many rows are deleted as inserted, so that the table keeps its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

UPDATES = 10
INSERTS = 5
LIFETIME = 100
"""The number of writes after which an inserted row is deleted."""

MOVES_EVERY = 10
MAINTAINED_EVERY = 50

STATUS = ("paid", "open", "shipped")

SCHEMA = pa.schema(
    [
        ("order_id", pa.string()),
        ("customer_id", pa.int32()),
        ("amount", pa.int32()),
        ("status", pa.string()),
        ("note", pa.string()),
    ]
)
RETENTION = {
    "delta.logRetentionDuration": "interval 5 minutes",
    "delta.deletedFileRetentionDuration": "interval 5 minutes",
}
"""Longer than the lag of any epoch, and short enough to pass many times during the run."""


class Writer:
    """
    Writes to the upstream, in a separate process.

    :param process: the process.
    :param path: the upstream.
    :param rows: the number of rows at the beginning.
    """

    def __init__(self, process: ProcessPoolExecutor, path: str, rows: int) -> None:
        self._process = process
        self._path = path
        self._rows = rows
        self._written = 0

    def write(self) -> None:
        """Commit the next write; clean up the files now and then, as the table's owner would."""
        self._written += 1
        self._process.submit(_write, self._path, self._rows, self._written).result()
        if self._written % MAINTAINED_EVERY == 0:
            self._process.submit(_maintain, self._path).result()


@contextmanager
def writer(path: str, rows: int) -> Iterator[Writer]:
    """Make the upstream, and return a writer for the block."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        process.submit(_make, path, rows).result()
        yield Writer(process, path, rows)


def key_of(number: int) -> str:
    """Return the key of an order by its number in order of arrival."""
    return f"{number:032}"


def written(rows: int, number: int) -> list[dict[str, Any]]:
    """
    Return the changes of a write, at most one for each key.

    :param rows: the number of rows at the beginning.
    :param number: the number of the write, from 1.
    :returns: rows, each with the change ``update``, ``insert`` or ``delete``.
    """
    done: dict[str, dict[str, Any]] = {}

    def do(what: str, key: str, salt: int) -> None:
        done[key] = {**_row(key, salt), "done": what}

    for n in range(UPDATES):
        # Spread over all keys, different ones each time.
        do("update", key_of((number * 7919 + n * rows // UPDATES) % rows), number + n)
    for index in range(INSERTS):
        do("insert", key_of(rows + number * INSERTS + index), number + index)
        if number > LIFETIME:
            do("delete", key_of(rows + (number - LIFETIME) * INSERTS + index), 0)
    if number % MOVES_EVERY == 0:
        # A row moves to a new key, directly after a key in the middle.
        do("delete", key_of(number * 13 % rows), 0)
        do("insert", f"{key_of(number * 7907 % rows)}-{number}", number)
    return list(done.values())


def _row(key: str, salt: int) -> dict[str, Any]:
    return {
        "order_id": key,
        "customer_id": salt % 9973,
        "amount": salt * 37 % 997,
        "status": STATUS[salt % len(STATUS)],
        "note": f"note {salt} of {key}",
    }


def _make(path: str, rows: int) -> None:
    made = pa.Table.from_pylist([_row(key_of(number), number) for number in range(rows)], SCHEMA)
    write_deltalake(path, made, configuration={"delta.enableChangeDataFeed": "true", **RETENTION})


def _write(path: str, rows: int, number: int) -> None:
    source = pa.Table.from_pylist(written(rows, number), SCHEMA.append(pa.field("done", pa.string())))
    values = {name: f"source.{name}" for name in SCHEMA.names}
    (
        DeltaTable(path)
        .merge(source, "target.order_id = source.order_id", source_alias="source", target_alias="target")
        .when_matched_delete("source.done = 'delete'")
        .when_matched_update(values, "source.done = 'update'")
        .when_not_matched_insert(values, "source.done = 'insert'")
        .execute()
    )


def _maintain(path: str) -> None:
    table = DeltaTable(path)
    table.optimize.compact()
    table.vacuum(dry_run=False)
