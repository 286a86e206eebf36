"""
The data files of a table as its log describes them: sizes, rows, and how many of the rows are deleted.

Nothing is read but the log, and the footers of files whose rows it does not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.core.compaction import TARGET_FILE_SIZE, TARGET_PROPERTY, StoredFile, bytes_of
from airflow_backfill_provider.lake.data_files import DataFiles
from airflow_backfill_provider.lake.storage import log_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """
    What one version of a table is stored in.

    :param files: its data files.
    :param target_file_size: bytes of a good file, by the table's property or by default.
    """

    files: tuple[StoredFile, ...]
    target_file_size: int


def table_files(path: str, storage_options: Mapping[str, str] | None = None) -> TableFiles:
    """
    Read what a table's newest version is stored in.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    """
    with log_errors(path):
        table = DeltaTable(path, storage_options=dict(storage_options or {}) or None)
        actions = _told_of_files(table)
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


def _told_of_files(table: DeltaTable) -> pa.Table:
    """Return what the log says of each file, without bounds of its columns, of which there may be many."""
    actions = pa.table(table.get_add_actions(flatten=True))
    told = [name for name in actions.column_names if name in {"path", "size_bytes"} or name.startswith("partition.")]
    # A partition is only told from others here, and Python's years end with 9999.
    told_columns = [
        column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
        for column in actions.select(told).columns
    ]
    return pa.table(told_columns, told)
