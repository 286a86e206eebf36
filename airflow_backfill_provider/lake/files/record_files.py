"""Folders of small files beside control tables. A write replaces a whole file, so a reader never sees half of one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.files.small_files import write_file
from airflow_backfill_provider.lake.store.storage import storage_errors

LONGEST_RECORD = 1 << 20
"""How much of a file is read, in bytes; a longer one is not of this package, and unreadable."""


class RecordFiles:
    """
    A folder of small files.

    :param location: the folder's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._files: _Files = (
            _LocalFiles(Path(location)) if is_local(location) else _ObjectStoreFiles(location, storage_options or {})
        )

    def get(self, file: str) -> str | None:
        """
        Return a file's text, if the file exists.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        with storage_errors(self.location):
            content = self._files.get(file)
        return None if content is None else content.decode("utf-8", "replace")

    def put(self, file: str, text: str) -> None:
        """Write or replace a file."""
        with storage_errors(self.location):
            self._files.put(file, text.encode())

    def delete(self, file: str) -> None:
        """Remove a file, if it exists, and folders that are empty then."""
        with storage_errors(self.location):
            self._files.delete(file)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the files that begin with a prefix, sorted."""
        with storage_errors(self.location):
            return sorted(name for name in self._files.names() if name.startswith(prefix))


def replace_file(file: Path, content: bytes, *, mode: int = 0o666) -> None:
    """
    Write or replace a local file at once.

    :param mode: the most rights of the new file; the process may allow fewer.
    """
    # Threads of one process write the same file, and so may processes of several hosts with one id.
    new = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as opened:
            opened.write(content)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


class _Files(Protocol):
    def get(self, file: str) -> bytes | None: ...

    def put(self, file: str, content: bytes) -> None: ...

    def delete(self, file: str) -> None: ...

    def names(self) -> list[str]: ...


class _LocalFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, file: str) -> bytes | None:
        try:
            with (self._folder / file).open("rb") as opened:
                return opened.read(LONGEST_RECORD)
        except FileNotFoundError:
            return None

    def put(self, file: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._folder / file, content)

    def delete(self, file: str) -> None:
        (self._folder / file).unlink(missing_ok=True)
        with suppress(OSError):  # the folder is not empty
            self._folder.rmdir()
            self._folder.parent.rmdir()

    def names(self) -> list[str]:
        try:
            return [entry.name for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return []


class _ObjectStoreFiles:
    def __init__(self, folder: str, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._options = dict(options)

    def get(self, file: str) -> bytes | None:
        try:
            with self._storage.open_input_file(file) as stream:
                return bytes(stream.read(LONGEST_RECORD))
        except FileNotFoundError:
            return None

    def put(self, file: str, content: bytes) -> None:
        write_file(self._storage, file, content)

    def delete(self, file: str) -> None:
        try:
            self._storage.delete_file(file)
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        found = self._storage.get_file_info(arrow_fs.FileSelector("", allow_not_found=True))
        return [info.base_name for info in found if info.type is arrow_fs.FileType.File]

    @cached_property
    def _storage(self) -> arrow_fs.FileSystem:
        # deltalake is slow to import, and a supervisor of a local job does not need it.
        from airflow_backfill_provider.lake.files.stored_files import stored_files

        return stored_files(self._folder, self._options)
