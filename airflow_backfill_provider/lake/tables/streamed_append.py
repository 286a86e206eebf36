"""
Appends batches of rows to a plain Delta table of this package's own, of which only one is in memory at a time.

deltalake has all rows of a commit in memory, several times over.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.written_statistics import statistics_of
from airflow_backfill_provider.lake.store.storage import storage_errors


def append_streamed(
    table: DeltaTable,
    location: str,
    batches: Iterable[pa.RecordBatch],
    *,
    indexed: int,
    commit_properties: CommitProperties,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """
    Write batches into one file, and add that to the table in one commit.

    :param location: where the table is; the table itself knows it in another notation.
    :param indexed: how many columns get bounds.
    :raises CommitFailedError: if the table has a commit that it did not have when it was opened, and the properties
        allow no retry.
    :raises StorageUnavailableError: if its storage does not answer.
    """
    files, name = stored_files(location, storage_options), f"part-{uuid.uuid4()}.parquet"
    try:
        footer = _write(files, name, batches, location)
    except BaseException:
        # Nothing refers to it. After a commit was tried, that would be unknown.
        with suppress(OSError):
            files.delete_file(name)
        raise
    with storage_errors(location):
        added = AddAction(
            path=name,
            size=files.get_file_info(name).size,
            partition_values={},
            modification_time=time.time_ns() // 1_000_000,
            data_change=True,
            stats=statistics_of(footer, json.loads(table.schema().to_json())["fields"], indexed),
        )
        table.create_write_transaction([added], "append", table.schema(), commit_properties=commit_properties)


def _write(files: arrow_fs.FileSystem, name: str, batches: Iterable[pa.RecordBatch], location: str) -> pq.FileMetaData:
    with storage_errors(location):
        stream = files.open_output_stream(name)
    try:
        footer = _into(stream, batches, location)
    except BaseException:
        with suppress(OSError):
            stream.close()
        raise
    # A storage may take the file only now.
    with storage_errors(location):
        stream.close()
    return footer


def _into(stream: pa.NativeFile, batches: Iterable[pa.RecordBatch], location: str) -> pq.FileMetaData:
    """Write batches; what their own source raises is no error of the storage."""
    writer: pq.ParquetWriter | None = None
    for batch in batches:
        with storage_errors(location):
            writer = writer or pq.ParquetWriter(stream, batch.schema)
            writer.write_batch(batch)
    if writer is None:
        raise ValueError("there is nothing to append")
    with storage_errors(location):
        writer.close()
    return writer.writer.metadata
