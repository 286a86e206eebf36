"""Starts a Spark application that outlives its task run, and finds it again."""

from __future__ import annotations

import socket
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from airflow.sdk.exceptions import AirflowException

from airflow_backfill_provider.applications import supervisor
from airflow_backfill_provider.applications.inherited_environment import inherited_environment
from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.core.application_output import ApplicationOutput
from airflow_backfill_provider.hooks.application_log import make_log
from airflow_backfill_provider.state.applications import ApplicationRecords

if TYPE_CHECKING:
    from airflow_backfill_provider.hooks.applications import ApplicationHook


class SupervisedApplication:
    """
    An application of a job, with all attempts to run it.

    :param state: folder of the job's control tables.
    :param storage_options: options of the object store.
    :param job: the job's name.
    :param name: the application's name, unique in the job.
    :param task_run: the task run that starts the application or waits for it.
    """

    def __init__(
        self, *, state: str, storage_options: Mapping[str, str], job: str, name: str, task_run: str = ""
    ) -> None:
        self.name = name
        self._task_run = task_run
        self._started: str | None = None
        self._state = state
        self._storage_options = storage_options
        self._job = job
        self._records = ApplicationRecords(state, storage_options)

    def running(self) -> ApplicationRecord | None:
        """Return the record of the running attempt, if there is one; an attempt that was asked to stop is left out."""
        record = self._records.read(self.name)
        if record is None or record.ended or self._records.stop_requested(record):
            return None
        return record

    def start(self, hook: ApplicationHook, application: str, arguments: Sequence[str]) -> ApplicationRecord:
        """
        Start a new attempt; an attempt that is still running ends.

        :param hook: submits the application.
        :param application: file name in ``spark_apps``.
        :param arguments: its arguments.
        :raises AirflowException: if the supervisor does not start.
        """
        attempt = self._started = uuid.uuid4().hex
        order = supervisor.Order(
            state=self._state,
            storage_options=self._storage_options,
            name=self.name,
            attempt=attempt,
            command=hook.command(application, arguments),
            environment=hook.environment(),
            log=str(make_log(self._job, self.name, attempt)),
            started_by=self._task_run,
        )
        _start_supervisor(order)
        record = self._records.read(self.name)
        if record is None:
            raise AirflowException(
                f"the record of application {self.name} at {self._records.location} is gone; try again"
            )
        return record

    def stop(self) -> None:
        """
        Ask the supervisor to end the attempt that was started here.

        If none was, this ends the running attempt, unless other task runs wait for it.
        """
        record = self.running()
        if record is None or self._started not in {None, record.attempt}:
            return
        if not self._records.others_waiting(self.name, self._task_run):
            self._records.request_stop(record, self._task_run)


def _start_supervisor(order: supervisor.Order) -> None:
    """
    Start the supervisor and wait until it has written its record.

    :raises AirflowException: if it does not start.
    """
    with Path(order.log).open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", supervisor.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=inherited_environment(),
            # Signals to this task run's process group must not end the application.
            start_new_session=True,
        )
    with cast("IO[bytes]", process.stdout) as answer:
        with cast("IO[bytes]", process.stdin) as standard_input:
            standard_input.write(order.model_dump_json().encode())
        ready = answer.readline().decode().strip() == supervisor.READY
    if not ready:
        output = ApplicationOutput(f"{order.log} on {socket.gethostname()}")
        for line in Path(order.log).read_text(encoding="utf-8", errors="replace").splitlines():
            output.read(line)
        raise AirflowException(
            f"the supervisor of application {order.name} did not start: {output.reason(process.wait() or None)}"
        )
