"""Deletes a table of this package's own with its files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.core.location import is_local, parent
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.store.storage import storage_errors


def drop_table(path: str, storage_options: Mapping[str, str] | None = None) -> None:
    """
    Delete a table with its files, if it exists; readers of it fail from then on.

    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """
    # Delete the log first, so that a crash leaves no broken table.
    if is_local(path):
        for folder in (Path(path, "_delta_log"), Path(path)):
            shutil.rmtree(folder, ignore_errors=True)
        return
    with storage_errors(path):
        storage = stored_files(path, storage_options)
        found = storage.get_file_info(arrow_fs.FileSelector("", recursive=True, allow_not_found=True))
        paths = [info.path for info in found if info.type is arrow_fs.FileType.File]
        for file in sorted(paths, key=lambda file: not file.startswith("_delta_log/")):
            storage.delete_file(file)


def drop_empty_folders(path: str) -> None:
    """
    Delete the folder of a job's control tables, and ``_backfill`` above it, if they are local and empty.

    :param path: the folder's canonical location.
    """
    if not is_local(path):
        return
    with suppress(OSError):
        Path(path).rmdir()
        if parent(path).endswith("/_backfill"):
            Path(parent(path)).rmdir()
