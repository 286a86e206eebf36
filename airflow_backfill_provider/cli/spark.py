"""Spark for one command: starts or connects when it is first needed, prints nothing, and ends with the command."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from airflow_backfill_provider.core.errors import SparkServerUnavailableError, SparkUnavailableError
from airflow_backfill_provider.core.remote import Remote, is_remote
from airflow_backfill_provider.lake.store.object_store import hadoop_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.engine.spark_engine import SparkEngine
    from airflow_backfill_provider.jobs.backfill import Backfill


ENGINE = "engine"
"""The name of this user's warm engine as a master."""


class LazySpark:
    """
    The engine of a command. The first call starts Spark, or connects to it.

    :param backfill: the job, for the application's name and the object store's options.
    :param master: Spark's master, the address of a Spark Connect server, or ``engine``; by default this machine.
    :param conf: configuration, added to the package's own.
    :param debug: show the output of Spark and Java.
    :param purpose: what the command does for its job; on a server, a command ends the sessions of earlier ones with the
        same purpose.
    :raises StorageOptionsError: if Spark cannot use one of the object store's options.
    """

    def __init__(
        self,
        backfill: Backfill,
        *,
        master: str | None,
        conf: Mapping[str, str],
        debug: bool,
        purpose: str,
    ) -> None:
        self._app_name = f"airflow-backfill {backfill.job.name}"
        self._master = master
        self._conf = conf
        self._storage_options = backfill.storage_options
        hadoop_settings(self._storage_options or {})
        self._debug = debug
        self._purpose = purpose
        self._started = ExitStack()
        self._engine: SparkEngine | None = None

    def __call__(self) -> SparkEngine:
        """
        Return the engine.

        :raises SparkUnavailableError: if Spark cannot be started.
        :raises SparkServerUnavailableError: if the Spark Connect server refuses this command.
        """
        if self._engine is None:
            remote = _remote(self._master)
            self._engine = self._start() if remote is None else self._connect(remote)
        return self._engine

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._started.close()
        except Exception:
            # A JVM that died need not be stopped; the earlier error is the one to report.
            if self._debug:
                raise

    def _connect(self, remote: Remote) -> SparkEngine:
        from airflow_backfill_provider.applications.connect import connected, ended_by_sigterm
        from airflow_backfill_provider.applications.connect_engine import ConnectEngine

        connection = self._started.enter_context(connected(remote, what=self._app_name, conf=self._conf))
        self._started.enter_context(ended_by_sigterm(connection.spark))
        return ConnectEngine(connection, self._storage_options, purpose=self._purpose)

    def _start(self) -> SparkEngine:
        from airflow_backfill_provider.engine.spark_engine import SparkEngine

        spark = self._session()
        self._started.callback(spark.stop)
        return SparkEngine(spark, self._storage_options)

    def _session(self) -> SparkSession:
        from airflow_backfill_provider.applications.spark_session import start_session

        if self._debug:
            return start_session(self._app_name, master=self._master, conf=self._conf)
        with _output_to_file() as output, _restored_ctrl_c():
            try:
                return start_session(self._app_name, master=self._master, conf=self._conf)
            except SparkUnavailableError as error:
                raise SparkUnavailableError(f"{error}{_reason(output)}") from error


def _remote(master: str | None) -> Remote | None:
    """
    Return the Spark Connect server that a master names, or ``None`` for another kind of master.

    :raises SparkServerUnavailableError: if it names this user's engine, and no engine is running.
    """
    if master == ENGINE:
        from airflow_backfill_provider.applications.local_engine.engine_files import NOT_RUNNING, running_engine

        record = running_engine()
        if record is None:
            raise SparkServerUnavailableError(NOT_RUNNING)
        return record.remote
    return Remote.parse(master) if master is not None and is_remote(master) else None


@contextmanager
def _output_to_file() -> Iterator[IO[bytes]]:
    """
    Redirect the output of a JVM that starts in the block to a file, until the JVM ends.

    Java prints warnings before they can be turned off, and again when it stops.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in saved:
                os.dup2(file.fileno(), number)
            yield file
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _restored_ctrl_c() -> Iterator[None]:
    """Restore the handler of Ctrl-C: PySpark's handler calls the JVM during another call, and both calls fail."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _reason(output: IO[bytes]) -> str:
    """Return the error in the output of a JVM that did not start."""
    output.seek(0)
    lines = output.read().decode("utf-8", "replace").splitlines()
    errors = [line.strip() for line in lines if "Exception" in line or "Error" in line]
    return f" ({errors[0]})" if errors else ""
