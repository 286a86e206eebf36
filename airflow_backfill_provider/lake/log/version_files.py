"""Whether the files of an older version of a table are still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.lake.files.deletion_vectors import vector_file
from airflow_backfill_provider.lake.files.own_files import lies_outside
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import Action, log_state
from airflow_backfill_provider.lake.store.storage import storage_errors

OF_LOG = "the log of that version"


def missing_file(location: str, version: int, storage_options: Mapping[str, str] | None = None) -> str:
    """
    Return the first file of a version that is gone; an empty text if all are there.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :returns: the path of the file in the table, or :data:`OF_LOG` if the log no longer has the version.
    """
    with storage_errors(location):
        log = DeltaLog(location, storage_options)
        try:
            state = log_state(log, version)
        except FileNotFoundError:
            return OF_LOG
        listed = log.storage.get_file_info(arrow_fs.FileSelector("", recursive=True))
        present = {found.path for found in listed if found.type is arrow_fs.FileType.File}
    needed = (path for entry in state.files.values() for path in _paths(entry))
    return next((path for path in needed if path not in present), "")


def _paths(entry: Action) -> Iterator[str]:
    """Yield the paths of an entry's files, relative to the table; files outside of the table are left out."""
    path = entry["path"]
    if not lies_outside(path):
        yield unquote(path)
    if (vector := entry.get("deletionVector")) and (file := vector_file(vector)):
        yield file
