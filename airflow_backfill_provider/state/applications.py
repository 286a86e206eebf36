"""
Records of a job's applications, beside its control tables.

One small file for each thing that an application does, replaced as a whole by every write; nothing of the epoch
protocol depends on them. A file that is gone or unreadable means that nothing is known, and another attempt is safe.
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
from airflow_backfill_provider.lake.storage import storage_errors

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler

FOLDER = "applications"


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
        Return what is known of the newest attempt, if anything is.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        text = self._get(f"{name}.json")
        try:
            return None if text is None else ApplicationRecord.model_validate_json(text)
        except ValidationError:
            return None

    def write(self, record: ApplicationRecord) -> None:
        """Replace what is known."""
        self._put(f"{record.name}.json", record.model_dump_json())

    def request_stop(self, record: ApplicationRecord) -> None:
        """Ask the supervisor of an attempt to end its application."""
        self._put(f"{record.name}.stop", record.attempt)

    def stop_requested(self, record: ApplicationRecord) -> bool:
        """Tell whether somebody asked for the attempt's end."""
        return self._get(f"{record.name}.stop") == record.attempt

    def forget(self, name: str) -> None:
        """Remove what is known, if anything is, and the folders that were made for it."""
        with storage_errors(self.location):
            for file in (f"{name}.json", f"{name}.stop"):
                self._files.delete(file)

    def session(self, name: str) -> ServerSession | None:
        """Return the session on a server that an application works in, or died in, if there is one."""
        text = self._get(f"{name}.session")
        try:
            return None if text is None else ServerSession.model_validate_json(text)
        except ValidationError:
            return None

    def write_session(self, name: str, session: ServerSession) -> None:
        """Say in which session on a server an application works, which goes on there if the application dies."""
        self._put(f"{name}.session", session.model_dump_json())

    def forget_session(self, name: str) -> None:
        """Say that an application left nothing on a server."""
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
            return (self._folder / file).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, file: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # Of its own, so that two writers don't meet, and a reader never sees half a file.
        new = self._folder / f".{file}.{os.getpid()}"
        new.write_bytes(content)
        new.replace(self._folder / file)

    def delete(self, file: str) -> None:
        (self._folder / file).unlink(missing_ok=True)
        with suppress(OSError):  # there is something else in it
            self._folder.rmdir()
            self._folder.parent.rmdir()


class _ObjectStoreFiles:
    def __init__(self, folder: str, options: Mapping[str, str]) -> None:
        self._folder = folder
        self._options = dict(options)

    def get(self, file: str) -> bytes | None:
        try:
            with self._storage.open_input_file(file) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def put(self, file: str, content: bytes) -> None:
        with self._storage.open_output_stream(file) as stream:
            stream.write(content)

    def delete(self, file: str) -> None:
        try:
            self._storage.delete_file(file)
        except FileNotFoundError:
            return

    @cached_property
    def _storage(self) -> DeltaStorageHandler:
        from deltalake.fs import DeltaStorageHandler

        return DeltaStorageHandler(self._folder, self._options or None)
