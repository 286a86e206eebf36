"""Writes an application's output to a file, and passes only its messages on."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from airflow_backfill_provider.core.application_output import ApplicationOutput


class WatchedOutput:
    """
    The output of an application that a process waits for.

    :param file: takes every line.
    :param place: where a user finds the file.
    :param say: takes the messages to the submitter.
    """

    def __init__(self, file: IO[str], place: str, say: Callable[[str], None]) -> None:
        self._file = file
        self._say = say
        self._output = ApplicationOutput(place)

    def read(self, line: str) -> None:
        """Read a line."""
        self._file.write(line)
        self._file.flush()
        known = self._output.application_id
        message = self._output.read(line)
        if message is not None:
            self._say(message)
        if self._output.application_id != known:
            self._say(f"Spark application {self._output.application_id} {self._output.web_url or ''}".rstrip())

    def reason(self, code: int | None) -> str:
        """Return why the application failed, as :meth:`ApplicationOutput.reason` does."""
        return self._output.reason(code)
