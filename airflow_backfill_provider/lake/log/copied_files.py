"""Copies the data files of another table, byte by byte, into the folder of a plain table, without adding them to it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import Action, LogState, log_state, partition_values
from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.lake.log.written_statistics import statistics_of
from airflow_backfill_provider.lake.store.storage import log_errors, storage_errors

_AT_ONCE = 8
"""How many files are copied at the same time."""


def copy_files(
    source: str, version: int, location: str, table: PlainTable, storage_options: Mapping[str, str] | None = None
) -> list[AddAction] | None:
    """
    Copy the data files of a version of a table, under names of their own.

    If the process dies, the copies are left to VACUUM, like those of any writer that died.

    :param source: the location of the table with the files.
    :param location: the location of the table whose folder they are copied to.
    :param table: this table.
    :returns: the entries that add the copies; ``None`` if the rows are more or less than what the files have, because
        some are hidden, or partition columns are not in the files.
    :raises StorageUnavailableError: if a copy is not complete.
    """
    log = DeltaLog(source, storage_options)
    with log_errors(source):
        state = log_state(log, version)
    if not _has_all_in_files(state):
        return None
    target = stored_files(location, storage_options)
    attempt = uuid.uuid4()

    def copy(numbered: tuple[int, Action]) -> AddAction:
        number, entry = numbered
        name, size = f"part-{number:05d}-{attempt}-c000.parquet", int(entry["size"])
        arrow_fs.copy_files(
            unquote(entry["path"]),
            name,
            source_filesystem=log.storage,
            destination_filesystem=target,
            use_threads=False,
        )
        return _added(target, name, size, table)

    with storage_errors(location), ThreadPoolExecutor(max_workers=_AT_ONCE) as copying:
        return list(copying.map(copy, enumerate(state.files.values())))


def _has_all_in_files(state: LogState) -> bool:
    """Return whether the rows of a version are exactly those that its files have."""
    return not any(entry.get("deletionVector") or partition_values(entry) for entry in state.files.values())


def _added(storage: arrow_fs.FileSystem, name: str, size: int, table: PlainTable) -> AddAction:
    found = storage.get_file_info(name)
    if found.size != size:
        raise StorageUnavailableError(
            f"the copy {name} of a data file has {found.size} bytes in place of {size}; try again"
        )
    with storage.open_input_file(name) as file:
        footer = pq.read_metadata(file)
    return AddAction(
        path=name,
        size=size,
        partition_values={},
        modification_time=(found.mtime_ns or 0) // 1_000_000,
        data_change=True,
        stats=statistics_of(footer, _fields_of(footer, table.fields), table.indexed),
    )


def _fields_of(footer: pq.FileMetaData, fields: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the table's columns in the order of a file's; none, so that only rows are counted, if they are nested."""
    named = {field["name"]: field for field in fields if isinstance(field["type"], str)}
    names = [footer.schema.column(number).path for number in range(footer.num_columns)]
    return [named[name] for name in names] if set(names) <= named.keys() else []
