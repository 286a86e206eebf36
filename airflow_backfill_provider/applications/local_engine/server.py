"""Starts and stops the engine's server."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from airflow_backfill_provider.applications.inherited_environment import inherited_environment
from airflow_backfill_provider.applications.local_engine import engine_files
from airflow_backfill_provider.applications.local_engine.engine_files import EngineRecord
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess, Listeners
from airflow_backfill_provider.applications.spark_settings import (
    REMOTE_VARIABLE,
    STORAGE_OPTIONS_VARIABLE,
    TOKEN_VARIABLE,
    require_java,
    spark_conf,
    spark_environment,
)
from airflow_backfill_provider.core.errors import BackfillError, SparkUnavailableError
from airflow_backfill_provider.core.remote import Remote

START_SECONDS = 180.0
STOP_GRACE_SECONDS = 20.0
_LOOK_SECONDS = 0.1

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_ADDRESS = "127.0.0.1"

_CONNECT = {
    "spark.app.name": "airflow-backfill engine",
    "spark.log.level": "WARN",
    "spark.connect.grpc.binding.address": _ADDRESS,
    # After this time, the server ends what a client left running; the default is five minutes.
    "spark.connect.execute.manager.detachedTimeout": "60s",
    # By default, the server keeps far more queries for Spark's UI.
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
}
_MEMORY = "spark.driver.memory"

# The server may run for months, and logs a line for every client that leaves.
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.name = file
appender.file.type = RollingFile
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


class EngineRunsError(BackfillError):
    """An engine is already running at another port."""


def start_engine(
    *,
    port: int,
    master: str,
    conf: Mapping[str, str],
    connect: Callable[[Remote], str],
) -> tuple[EngineRecord, bool]:
    """
    Start the engine and wait until a client can connect. Does nothing if it is already running.

    :param port: the port on loopback.
    :param master: the server's Spark master.
    :param conf: configuration, added to this package's own.
    :param connect: connects as a client, and returns Spark's version.
    :returns: the engine's record, and whether this call started it.
    :raises EngineRunsError: if an engine runs at another port.
    :raises BackfillError: if the engine cannot be started.
    """
    engine_files.make_folder()
    with _exclusive():
        running = engine_files.running_engine()
        if running is not None:
            if running.port != port:
                raise EngineRunsError(
                    f"an engine is already running at {running.remote}; use that one, or stop it first: "
                    "airflow-backfill engine stop"
                )
            return running, False
        return _start(port, master, conf, connect), True


def stop_engine() -> EngineRecord | None:
    """
    Stop the engine and everything that it runs.

    :returns: the record of the stopped engine, if one was running.
    """
    if not engine_files.folder().exists():
        return None
    with _exclusive():
        record = engine_files.running_engine()
        if record is not None:
            _end(record.process)
        engine_files.record_file().unlink(missing_ok=True)
        return record


def _start(port: int, master: str, conf: Mapping[str, str], connect: Callable[[Remote], str]) -> EngineRecord:
    require_java()
    _require_free(port)
    logs = f"-Dlog4j2.configurationFile={engine_files.logging_file().as_uri()}"
    settings = {
        **spark_conf(master, {**_CONNECT, "spark.driver.extraJavaOptions": logs, **conf}),
        "spark.master": master,
        "spark.connect.grpc.binding.port": str(port),
    }
    # Pass settings in a file and the token in the environment, because every user can read a command line.
    engine_files.write_private(engine_files.conf_file(), _as_properties(settings))
    engine_files.write_private(
        engine_files.logging_file(), _LOGGING.format(file=_escaped(str(engine_files.log_file())))
    )
    token = engine_files.make_token()
    process = _launch(token)
    try:
        _wait_for(port, process)
        version = connect(Remote(host=engine_files.HOST, port=port, token=token))
    except BaseException:
        _end(process)
        raise
    record = EngineRecord(
        process=process,
        port=port,
        master=master,
        memory=settings.get(_MEMORY, "1g"),
        version=version,
        started_at=dt.datetime.now(tz=dt.UTC),
    )
    engine_files.write_private(engine_files.record_file(), record.model_dump_json())
    return record


def _launch(token: str) -> KnownProcess:
    inherited = inherited_environment({STORAGE_OPTIONS_VARIABLE, REMOTE_VARIABLE})
    environment = {**inherited, **spark_environment(), TOKEN_VARIABLE: token}
    command = ["spark-submit", "--load-spark-defaults", "--properties-file", str(engine_files.conf_file())]
    command += ["--class", _SERVER, "spark-internal"]
    for file in (engine_files.log_file(), engine_files.output_file()):
        engine_files.write_private(file, "")
    try:
        with engine_files.output_file().open("ab") as log:
            server = subprocess.Popen(
                command,
                env=environment,
                cwd=engine_files.folder(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C and other signals to the terminal's processes must not end the engine.
                start_new_session=True,
            )
    except FileNotFoundError:
        raise SparkUnavailableError(
            "there is no spark-submit on the PATH; install airflow-backfill-provider[spark]"
        ) from None
    process = KnownProcess.of(server.pid)
    if process is None:
        raise SparkUnavailableError(f"the engine did not start{_reason()}; see {engine_files.folder()}")
    return process


def _wait_for(port: int, process: KnownProcess) -> None:
    until = time.monotonic() + START_SECONDS
    while process.is_alive():
        match process.listeners(port):
            case Listeners.OWN:
                return
            case Listeners.OTHERS:
                # The next thing sent to the port is the token.
                raise _taken(port, "another process listens there")
        if time.monotonic() > until:
            raise SparkUnavailableError(
                f"the engine did not start within {START_SECONDS:.0f} s; see {engine_files.folder()}"
            )
        time.sleep(_LOOK_SECONDS)
    raise SparkUnavailableError(f"the engine did not start{_reason()}; see {engine_files.folder()}")


def _reason() -> str:
    """Return the first error in the server's output, in parentheses."""
    files = (engine_files.output_file(), engine_files.log_file())
    lines = [line for file in files for line in file.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line.strip() for line in lines if "Exception" in line or "Error" in line]
    return f" ({errors[0]})" if errors else ""


def _require_free(port: int) -> None:
    with socket.socket() as probe:
        # Like the server, accept a port that is only in TIME_WAIT.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_ADDRESS, port))
        except OSError as error:
            raise _taken(port, str(error.strerror)) from None


def _taken(port: int, reason: str) -> BackfillError:
    return BackfillError(f"port {port} cannot be used ({reason}); choose another one with --port")


def _end(process: KnownProcess) -> None:
    """End a process and its process group: first with SIGTERM, then with SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not process.is_alive():
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        until = time.monotonic() + STOP_GRACE_SECONDS
        while process.is_alive() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)


@contextmanager
def _exclusive() -> Iterator[None]:
    """Let only one process at a time start or stop the engine."""
    with (engine_files.folder() / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _as_properties(settings: Mapping[str, str]) -> str:
    """Return settings as a file of Java's properties."""
    return "".join(f"{_escaped(name, also=' =:')}={_escaped(value)}\n" for name, value in settings.items())


def _escaped(text: str, *, also: str = "") -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    for character in also:
        escaped = escaped.replace(character, f"\\{character}")
    # Java drops blanks before a value.
    return f"\\{escaped}" if escaped.startswith((" ", "\t", "#", "!")) else escaped
