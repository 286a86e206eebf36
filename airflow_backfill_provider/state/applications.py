"""
Records of a job's Spark applications, beside its control tables.

There is one small file per application name, and each write replaces the whole file. The epoch protocol does not depend
on these records. If a file is missing or unreadable, nothing is known, and another attempt is safe.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from airflow_backfill_provider.core import location
from airflow_backfill_provider.core.application import ApplicationRecord, ServerSession
from airflow_backfill_provider.lake.bucket_options import options_of
from airflow_backfill_provider.lake.small_files import write_file
from airflow_backfill_provider.lake.storage import storage_errors

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler

FOLDER = "applications"

LONGEST_RECORD = 1 << 20
"""How much of a record is read, in bytes; a longer one is not of this package, and unreadable."""


class ApplicationRecords:
    """
    Reads and writes the records of a job's applications.

    :param state: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = f"{state}/{FOLDER}"
        self._files = (
            _LocalFiles(Path(self.location))
            if location.is_local(self.location)
            else _ObjectStoreFiles(self.location, storage_options or {})
        )

    def read(self, name: str) -> ApplicationRecord | None:
        """
        Return the record of the newest attempt, if there is a readable one.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        text = self._get(f"{name}.json")
        try:
            return None if text is None else ApplicationRecord.model_validate_json(text)
        except ValidationError:
            return None

    def write(self, record: ApplicationRecord) -> None:
        """Replace the record."""
        self._put(f"{record.name}.json", record.model_dump_json())

    def request_stop(self, record: ApplicationRecord) -> None:
        """Request that the supervisor of an attempt ends its application."""
        self._put(f"{record.name}.stop", record.attempt)

    def stop_requested(self, record: ApplicationRecord) -> bool:
        """Return whether the attempt's end is requested."""
        return self._get(f"{record.name}.stop") == record.attempt

    def forget(self, name: str) -> None:
        """Remove the record, if there is one, and folders that are empty then."""
        with storage_errors(self.location):
            for file in (f"{name}.json", f"{name}.stop"):
                self._files.delete(file)

    def session(self, name: str) -> ServerSession | None:
        """Return the server session in which an application runs or died, if there is one."""
        text = self._get(f"{name}.session")
        try:
            return None if text is None else ServerSession.model_validate_json(text)
        except ValidationError:
            return None

    def write_session(self, name: str, session: ServerSession) -> None:
        """Record an application's server session, in which its operations continue if the application dies."""
        self._put(f"{name}.session", session.model_dump_json())

    def forget_session(self, name: str) -> None:
        """Remove the record of an application's server session, because nothing of it runs on the server."""
        with storage_errors(self.location):
            self._files.delete(f"{name}.session")

    def _get(self, file: str) -> str | None:
        with storage_errors(self.location):
            content = self._files.get(file)
        return None if content is None else content.decode("utf-8", "replace")

    def _put(self, file: str, text: str) -> None:
        with storage_errors(self.location):
            self._files.put(file, text.encode())


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
        # Each writer has its own temporary file, and a reader never sees half a file.
        new = self._folder / f".{file}.{os.getpid()}"
        new.write_bytes(content)
        new.replace(self._folder / file)

    def delete(self, file: str) -> None:
        (self._folder / file).unlink(missing_ok=True)
        with suppress(OSError):  # the folder is not empty
            self._folder.rmdir()
            self._folder.parent.rmdir()


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

    @cached_property
    def _storage(self) -> DeltaStorageHandler:
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self._folder, options_of(self._folder, self._options))
