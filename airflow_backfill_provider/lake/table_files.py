"""
The data files of a table as its log describes them: sizes, rows, and how many of the rows are deleted.

Nothing is read but the log, and the deletion vectors of a table that has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from airflow_backfill_provider.core.compaction import TARGET_FILE_SIZE, TARGET_PROPERTY, StoredFile, bytes_of
from airflow_backfill_provider.storage import log_errors

_DELETION_VECTORS = "deletionVectors"


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
        deleted = _deleted_rows(table)
    partitioned = [name for name in actions.column_names if name.startswith("partition.")]
    return TableFiles(
        files=tuple(
            StoredFile(
                size=action["size_bytes"],
                rows=action.get("num_records") or 0,
                deleted_rows=deleted.get(_name(action["path"]), 0),
                partition=tuple(action[name] for name in partitioned),
            )
            for action in actions.to_pylist()
        ),
        target_file_size=bytes_of(str(table.metadata().configuration.get(TARGET_PROPERTY, ""))) or TARGET_FILE_SIZE,
    )


def _told_of_files(table: DeltaTable) -> pa.Table:
    """Return what the log says of each file, without bounds of its columns, of which there may be many."""
    actions = pa.table(table.get_add_actions(flatten=True))
    told = [
        name
        for name in actions.column_names
        if name in {"path", "size_bytes", "num_records"} or name.startswith("partition.")
    ]
    # A partition is only told from others here, and Python's years end with 9999.
    told_columns = [
        column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
        for column in actions.select(told).columns
    ]
    return pa.table(told_columns, told)


def _deleted_rows(table: DeltaTable) -> dict[str, int]:
    """Return, for each file that has a deletion vector, how many rows that hides."""
    if _DELETION_VECTORS not in (table.protocol().reader_features or ()):
        return {}
    deleted: dict[str, int] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for file, kept in zip(batch.column("filepath").to_pylist(), batch.column("selection_vector"), strict=True):
            deleted[_name(file)] = len(kept) - (pc.sum(kept.values).as_py() or 0)
    return deleted


def _name(path: str) -> str:
    """Return a data file's own name, which no other file of the table has."""
    return path.rsplit("/", 1)[-1]
