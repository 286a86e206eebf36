"""A control table of numbers, in which each write adds the next one."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa

from airflow_backfill_provider.state.control_table import Write

SCHEMA = pa.schema([("n", pa.int64()), ("who", pa.string())])


def row(n, who="tester"):
    return pa.Table.from_pylist([{"n": n, "who": who}], schema=SCHEMA)


def numbers(table, where=None):
    return sorted(table.read(where).column("n").to_pylist())


def add_next(table, who="tester"):
    """Append the number after the greatest, as one atomic step."""
    table.update(lambda rows: Write(row(max(rows.column("n").to_pylist(), default=0) + 1, who)))


def full_disk(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def data_files(table):
    return list(Path(table.location).glob("*.parquet"))


def damage_data_cut(table):
    for file in data_files(table):
        file.write_bytes(file.read_bytes()[:30])
