"""
Records of a job's Spark applications, beside its control tables.

There is one small file per application name, and each write replaces the whole file. The epoch protocol does not depend
on these records. If a file is missing or unreadable, nothing is known, and another attempt is safe.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from airflow_backfill_provider.core.application import ApplicationRecord, ServerSession
from airflow_backfill_provider.lake.files.record_files import RecordFiles

FOLDER = "applications"

_WAITS = ".wait-"


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

    def request_stop(self, record: ApplicationRecord, by: str = "") -> None:
        """
        Request that the supervisor of an attempt ends its application.

        :param by: who asks for it.
        """
        self._files.put(f"{record.name}.stopped_by", by)
        self._files.put(f"{record.name}.stop", record.attempt)

    def stop_requested(self, record: ApplicationRecord) -> bool:
        """Return whether the attempt's end is requested."""
        return self._files.get(f"{record.name}.stop") == record.attempt

    def stopped_by(self, name: str) -> str:
        """Return who asked for the end of an application, as far as that is known."""
        return self._files.get(f"{name}.stopped_by") or ""

    def begin_wait(self, name: str, token: str, waiter: str) -> None:
        """
        Note that a task run waits for an application.

        :param token: identifies the wait, because the next try of a task run may begin before the end of this one.
        :param waiter: the task run.
        """
        self._files.put(f"{name}{_WAITS}{token}", waiter)

    def end_wait(self, name: str, token: str) -> None:
        """Note the end of a wait."""
        self._files.delete(f"{name}{_WAITS}{token}")

    def others_waiting(self, name: str, waiter: str) -> list[str]:
        """
        Return the other task runs that wait for an application; one of them must not end it for the others.

        A task run whose triggerer died may still be among them.
        """
        texts = {self._files.get(file) for file in self._files.names(f"{name}{_WAITS}")}
        return sorted(text for text in texts - {waiter, None} if text is not None)

    def forget(self, name: str) -> None:
        """Remove all that is known of an application, and folders that are empty then."""
        for file in (f"{name}.json", f"{name}.stop", f"{name}.stopped_by", *self._files.names(f"{name}{_WAITS}")):
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
