"""
Records of a job's Spark applications, beside its control tables.

There is one small file per application name, and each write replaces the whole file. The epoch protocol does not depend
on these records. If a file is missing or unreadable, nothing is known, and another attempt is safe.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from airflow_backfill_provider.core.application import ApplicationRecord, ServerSession
from airflow_backfill_provider.lake.record_files import RecordFiles

FOLDER = "applications"


class ApplicationRecords:
    """
    Reads and writes the records of a job's applications.

    :param state: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, state: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = f"{state}/{FOLDER}"
        self._files = RecordFiles(self.location, storage_options)

    def read(self, name: str) -> ApplicationRecord | None:
        """
        Return the record of the newest attempt, if there is a readable one.

        :raises StorageUnavailableError: if the storage does not answer.
        """
        text = self._files.get(f"{name}.json")
        try:
            return None if text is None else ApplicationRecord.model_validate_json(text)
        except ValidationError:
            return None

    def write(self, record: ApplicationRecord) -> None:
        """Replace the record."""
        self._files.put(f"{record.name}.json", record.model_dump_json())

    def request_stop(self, record: ApplicationRecord) -> None:
        """Request that the supervisor of an attempt ends its application."""
        self._files.put(f"{record.name}.stop", record.attempt)

    def stop_requested(self, record: ApplicationRecord) -> bool:
        """Return whether the attempt's end is requested."""
        return self._files.get(f"{record.name}.stop") == record.attempt

    def forget(self, name: str) -> None:
        """Remove the record, if there is one, and folders that are empty then."""
        for file in (f"{name}.json", f"{name}.stop"):
            self._files.delete(file)

    def session(self, name: str) -> ServerSession | None:
        """Return the server session in which an application runs or died, if there is one."""
        text = self._files.get(f"{name}.session")
        try:
            return None if text is None else ServerSession.model_validate_json(text)
        except ValidationError:
            return None

    def write_session(self, name: str, session: ServerSession) -> None:
        """Record an application's server session, in which its operations continue if the application dies."""
        self._files.put(f"{name}.session", session.model_dump_json())

    def forget_session(self, name: str) -> None:
        """Remove the record of an application's server session, because nothing of it runs on the server."""
        self._files.delete(f"{name}.session")
