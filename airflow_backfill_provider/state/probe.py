"""Tests whether control tables can be stored in a folder, and leaves nothing there."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow.fs as arrow_fs
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.exclusive_commits import PROBE_SCHEMA, second_commit_fails
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import one_line, storage_errors

_IMPATIENT = {"max_retries": "1", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "10s"}
"""Short timeouts, because a user waits at the connection form."""


def probe_state_root(root: str, storage_options: Mapping[str, str]) -> str:
    """
    Test a folder for control tables: list it, create a table in it, write to the table and remove it.

    :param root: the folder's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :returns: the result as a sentence.
    :raises StorageUnavailableError: if one of these steps fails; says which.
    """
    if location.is_local(root):
        return _probe_folder(Path(root))
    return _probe_store(root, {**_IMPATIENT, **storage_options})


def _probe_folder(root: Path) -> str:
    if root.is_dir():
        try:
            with tempfile.TemporaryDirectory(prefix="_connection_test_", dir=root):
                return _found(sum(1 for entry in root.iterdir() if entry.is_dir()) - 1)
        except OSError as error:
            raise StorageUnavailableError(
                f"{root} cannot be written to ({error.strerror}); give Airflow's user write permission"
            ) from error
    if root.exists():
        raise StorageUnavailableError(f"{root} is a file; give a folder")
    parent = next(folder for folder in root.parents if folder.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageUnavailableError(
            f"{root} does not exist, and {parent} cannot be written to; create the folder, and give Airflow's user "
            "write permission on it"
        )
    return "it does not exist yet; the first job creates it"


def _probe_store(root: str, options: dict[str, str]) -> str:
    name = f"_connection_test_{uuid.uuid4().hex}"
    with storage_errors(root):
        files = stored_files(root, options)
        there = files.get_file_info(arrow_fs.FileSelector("", allow_not_found=True))
    table = f"{root}/{name}"
    try:
        with storage_errors(root):
            DeltaTable.create(table, PROBE_SCHEMA, storage_options=options_of(table, options))
            is_safe = second_commit_fails(table, options)
    except DeltaError as error:
        raise StorageUnavailableError(
            f"{root} can be listed, but no table can be created in it ({one_line(error)}); check the permissions"
        ) from error
    with storage_errors(table):
        files.delete_dir(name)
    if not is_safe:
        raise StorageUnavailableError(
            f"{root} lets a second writer replace the first one's commit, so control tables are not safe in it; "
            "choose a store with conditional put, or enable it"
        )
    return _found(sum(entry.type == arrow_fs.FileType.Directory for entry in there))


def _found(folders: int) -> str:
    return f"it can be read and written to, and has {folders} folder{'' if folders == 1 else 's'}"
