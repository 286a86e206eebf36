"""Whether control tables can be kept at a place: tried, and nothing left behind."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as arrow_fs
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.storage import one_line, storage_errors

_IMPATIENT = {"max_retries": "1", "retry_timeout": "10s", "connect_timeout": "5s", "timeout": "10s"}
"""Somebody waits at a form."""

_SCHEMA = pa.schema([("probe", pa.int64())])


def probe_state_root(root: str, storage_options: Mapping[str, str]) -> str:
    """
    List a folder for control tables, make a table in it, write to it and remove it.

    :param root: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :returns: what was found, for a person.
    :raises StorageUnavailableError: saying which of it is not possible.
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
                f"{root} cannot be written to ({error.strerror}); give Airflow's user the right to"
            ) from error
    if root.exists():
        raise StorageUnavailableError(f"{root} is a file; name a folder")
    parent = next(folder for folder in root.parents if folder.exists())
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StorageUnavailableError(
            f"{root} does not exist, and {parent} cannot be written to; make the folder, and give Airflow's user the "
            "right to write to it"
        )
    return "it does not exist yet, and the first job will make it"


def _probe_store(root: str, options: dict[str, str]) -> str:
    name = f"_connection_test_{uuid.uuid4().hex}"
    with storage_errors(root):
        files = arrow_fs.PyFileSystem(DeltaStorageHandler(root, options))
        there = files.get_file_info(arrow_fs.FileSelector("", allow_not_found=True))
    place = f"{root}/{name}"
    try:
        with storage_errors(root):
            DeltaTable.create(place, _SCHEMA, storage_options=options)
            fenced = _second_commit_fails(place, options)
    except DeltaError as error:
        raise StorageUnavailableError(
            f"{root} can be listed, but no table can be made in it: {one_line(error)}"
        ) from error
    with storage_errors(place):
        files.delete_dir(name)
    if not fenced:
        raise StorageUnavailableError(
            f"{root} lets a second writer replace what the first one wrote, so control tables are not safe in it; "
            "choose a store with conditional put, or switch it on"
        )
    return _found(sum(entry.type == arrow_fs.FileType.Directory for entry in there))


def _second_commit_fails(place: str, options: dict[str, str]) -> bool:
    """Let two writers commit the same version, which is what every control table relies on."""
    row = pa.table({"probe": pa.array([1], pa.int64())}, _SCHEMA)
    writers = [DeltaTable(place, storage_options=options) for _ in range(2)]
    try:
        for writer in writers:
            write_deltalake(writer, row, mode="append", commit_properties=CommitProperties(max_commit_retries=0))
    except CommitFailedError:
        return True
    return False


def _found(folders: int) -> str:
    return f"it can be read and written to, and holds {folders} folder{'' if folders == 1 else 's'}"
