"""
A sample of the upstream's keys, taken once when the job is created.

It only decides how many rows are read at a time. Any key is a correct bound, so nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.scan.keys import KeyOrder, Position
from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors

MOST_KEYS = 100_000

_SCHEMA = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("key", pa.list_(pa.string()))])


def write_sample(
    location: str, sample: Sequence[Position], order: KeyOrder, storage_options: Mapping[str, str] | None
) -> None:
    """Write a sample, unless there is one."""
    keys = [list(order.encode(position) or ()) for position in sample]
    rows = pa.table({"number": pa.array(range(len(keys)), pa.int64()), "key": pa.array(keys, pa.list_(pa.string()))})
    try:
        with storage_errors(location):
            write_deltalake(
                location, rows.cast(_SCHEMA), mode="error", storage_options=options_of(location, storage_options)
            )
    except DeltaError:
        read_sample(location, order, storage_options)


def last_sampled(location: str, order: KeyOrder, storage_options: Mapping[str, str] | None) -> Position | None:
    """Return the last key of the sample; ``None`` if it has none."""
    rows = _stored(location, storage_options)
    return order.decode(rows.sort_by("number")["key"][-1].as_py()) if rows else None


def read_sample(location: str, order: KeyOrder, storage_options: Mapping[str, str] | None) -> list[Position]:
    """Return the sample, in key order; empty if there is none."""
    rows = _stored(location, storage_options)
    if not rows:
        return []
    decoded = (order.decode(key) for key in rows.sort_by("number")["key"].to_pylist())
    return [position for position in decoded if position is not None]


def _stored(location: str, storage_options: Mapping[str, str] | None) -> pa.Table | None:
    """Return the keys with their numbers; ``None`` if there is no sample, or if it has no keys."""
    try:
        with storage_errors(location):
            table = DeltaTable(location, storage_options=options_of(location, storage_options))
            rows = read_rows(table, ", ".join(_SCHEMA.names)).cast(_SCHEMA)
    except TableNotFoundError:
        return None
    return rows if rows.num_rows else None
