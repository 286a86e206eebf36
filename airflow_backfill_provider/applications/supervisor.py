"""
Supervises one Spark application: ``python -m airflow_backfill_provider.applications.supervisor``.

The supervisor reads its order from standard input.

It is independent of the task run that starts it. It keeps the application's record up to date, stops the application on
request, and ends if another attempt of the same application has started. It imports nothing slow, because the
application waits for it.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

from pydantic import Field
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from airflow_backfill_provider.applications.process_group import end_group, start_group
from airflow_backfill_provider.core.application import (
    DONE,
    FAILED,
    LOG_VARIABLE,
    ApplicationRecord,
)
from airflow_backfill_provider.core.application_output import ApplicationOutput
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.state.applications import ApplicationRecords

READY = "ready"
"""The line that the supervisor prints once the application's record is written; all later news are in the record."""

LOOK_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
STOP_GRACE_SECONDS = 10.0
END_ATTEMPTS = 6

STOPPED = "the application was stopped on request"
"""The error of an application that was stopped; the record has who asked for it."""


class Order(Frozen):
    """
    The application to supervise. The order holds secrets, so it comes on standard input, never on a command line.

    :param state: folder of the job's control tables.
    :param storage_options: options of the object store.
    :param name: the application's name, unique in the job.
    :param attempt: the id of this attempt.
    :param command: the application's command line.
    :param environment: the application's whole environment.
    :param log: the file for the application's output.
    :param started_by: the task run that starts it.
    """

    state: str
    storage_options: Mapping[str, str] = Field(default_factory=dict, repr=False)
    name: str
    attempt: str
    command: Sequence[str]
    environment: Mapping[str, str] = Field(repr=False)
    log: str
    started_by: str = ""


class Supervisor:
    """
    Runs one application to its end.

    :param order: the application to run.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self._records = ApplicationRecords(order.state, order.storage_options)
        self._record = ApplicationRecord(
            name=order.name,
            attempt=order.attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            started_at=_now(),
            log=order.log,
            started_by=order.started_by,
        )
        self._place = f"{order.log} on {self._record.host}"
        self._output = ApplicationOutput(self._place)
        self._error = ""
        self._stopping = threading.Event()

    def run(self) -> None:
        """Write the record, run the application, and record its end."""
        with _stop_on_signals(self._stopping):
            self._records.write(self._record)
            sys.stdout.write(f"{READY}\n")
            sys.stdout.flush()
            code = self._supervise()
            if code is not None:
                self._write_end(code)

    def _supervise(self) -> int | None:
        """Return the application's exit code; ``None`` if another attempt has taken over the record."""
        path = Path(self._order.log)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            try:
                process = start_group(self._order.command, {**self._order.environment, LOG_VARIABLE: self._place})
            except OSError as error:
                self._error = f"{self._order.command[0]} cannot be started: {error.strerror}"
                return FAILED
            reading = threading.Thread(target=self._read, args=(process.stdout, log), daemon=True)
            reading.start()
            superseded = self._watch(process)
            end_group(process, STOP_GRACE_SECONDS)
            process.wait()
            reading.join(STOP_GRACE_SECONDS)
            if superseded:
                log.write(self._successor())
        return None if superseded else process.returncode

    def _watch(self, process: subprocess.Popen[str]) -> bool:
        """Wait for the end, or for a reason to stop; return whether another attempt has taken over the record."""
        beats = 0.0
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
                return False
            with suppress(StorageUnavailableError):
                known = self._records.read(self._record.name)
                if known is not None and known.attempt != self._record.attempt:
                    return True
                requested = self._records.stop_requested(self._record)
                if self._stopping.is_set() or requested:
                    self._error = STOPPED
                    by = self._records.stopped_by(self._record.name) if requested else "a signal to its supervisor"
                    self._record = self._record.model_copy(update={"stopped_by": by})
                    return False
            beats += LOOK_SECONDS
            if beats >= HEARTBEAT_SECONDS:
                beats = 0.0
                self._record = self._record.with_next_heartbeat()
                self._write(self._current())

    def _read(self, lines: IO[str], log: IO[str]) -> None:
        """Write the output to the log, and keep the messages to the submitter."""
        for line in lines:
            log.write(line)
            log.flush()
            self._output.read(line)

    def _current(self) -> ApplicationRecord:
        return self._record.model_copy(
            update={
                "said": self._output.said,
                "application_id": self._output.application_id,
                "web_url": self._output.web_url,
            }
        )

    def _write(self, record: ApplicationRecord) -> None:
        """Write the record, if the storage answers. If it does not, the trigger notices the silence."""
        with suppress(StorageUnavailableError):
            self._records.write(record)

    @retry(
        retry=retry_if_exception_type(StorageUnavailableError),
        stop=stop_after_attempt(END_ATTEMPTS),
        wait=wait_fixed(HEARTBEAT_SECONDS),
        reraise=True,
    )
    def _write_end(self, code: int) -> None:
        newest = self._records.read(self._record.name)
        if newest is not None and newest.attempt != self._record.attempt:
            # It started while this application was stopping, and must not take this end for its own.
            return
        error = "" if code == DONE else self._error or self._output.reason(code)
        end = {"exit_code": code, "error": error, "ended_at": _now()}
        self._records.write(self._current().model_copy(update=end))

    def _successor(self) -> str:
        """Return the log's last line after another attempt has started, for who looks for the output here."""
        with suppress(StorageUnavailableError):
            if (newest := self._records.read(self._record.name)) is not None:
                by = f" by {newest.started_by}" if newest.started_by else ""
                return (
                    f"ended, because another attempt was started{by} on {newest.host}; its output is in {newest.log}\n"
                )
        return "ended, because another attempt was started\n"


@contextmanager
def _stop_on_signals(stopping: threading.Event) -> Iterator[None]:
    """Let signals end the application before the supervisor."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _now() -> dt.datetime:
    return dt.datetime.now(tz=dt.UTC)


if __name__ == "__main__":
    Supervisor(Order.model_validate_json(sys.stdin.read())).run()
