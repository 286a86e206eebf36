"""
The sizes, row counts and deleted rows of a table's data files.

Only the log is read, and the footers of files without a row count in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.core.sizes import bytes_of
from airflow_backfill_provider.core.status.compaction import TARGET_FILE_SIZE, TARGET_PROPERTY, StoredFile
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """
    The data files of one version of a table.

    :param files: the data files.
    :param target_file_size: the file size in bytes that compaction aims at, from the table's property or the default.
    """

    files: tuple[StoredFile, ...]
    target_file_size: int


def table_files(path: str, storage_options: Mapping[str, str] | None = None) -> TableFiles:
    """
    Return the data files of a table's newest version.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    """
    with log_errors(path):
        table = DeltaTable(path, storage_options=options_of(path, storage_options))
        actions = _file_entries(table)
    rows = DataFiles(table, path, storage_options or {}).rows_by_file()
    partitioned = [name for name in actions.column_names if name.startswith("partition.")]
    return TableFiles(
        files=tuple(
            StoredFile(
                size=action["size_bytes"],
                rows=stored,
                deleted_rows=stored - live,
                partition=tuple(action[name] for name in partitioned),
            )
            for action in actions.to_pylist()
            for stored, live in [rows[unquote(action["path"])]]
        ),
        target_file_size=bytes_of(str(table.metadata().configuration.get(TARGET_PROPERTY, ""))) or TARGET_FILE_SIZE,
    )


def _file_entries(table: DeltaTable) -> pa.Table:
    """Return path, size and partition of each file in the log; the statistics of all columns could be large."""
    actions = pa.table(table.get_add_actions(flatten=True))
    names = [name for name in actions.column_names if name in {"path", "size_bytes"} or name.startswith("partition.")]
    # Partition values only need to be distinguishable here, and Python has no years after 9999.
    columns = [
        column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
        for column in actions.select(names).columns
    ]
    return pa.table(columns, names)
