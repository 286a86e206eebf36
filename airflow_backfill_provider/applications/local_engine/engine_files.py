"""The engine's files: their paths and their content."""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess, Listeners
from airflow_backfill_provider.core.errors import BackfillError, SparkServerUnavailableError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.lake.files.record_files import replace_file

HOST = "localhost"
NOT_RUNNING = "no engine is running; start it: airflow-backfill engine start"
_OWNER_ONLY = 0o700
_OWNER_ONLY_FILE = 0o600


class EngineRecord(Frozen):
    """
    The record of an engine, written when it starts.

    :param process: the server's process.
    :param port: the port on loopback.
    :param master: the Spark master.
    :param memory: the maximal heap of the JVM, as Spark writes it.
    :param version: the server's version of Spark.
    """

    process: KnownProcess
    port: int
    master: str
    memory: str
    version: str
    started_at: datetime

    @property
    def remote(self) -> Remote:
        """The address, without the token."""
        return Remote(host=HOST, port=self.port)


def folder() -> Path:
    """
    Return the folder of this user's engine on this machine.

    It does not lie in XDG's folder for run-time files. A daemon has none, or another one than a shell, but both must
    find the engine. The path contains the machine's name, because machines may share home folders.
    """
    state = os.environ.get("XDG_STATE_HOME") or ""
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "airflow-backfill" / "engine" / socket.gethostname()


def make_folder() -> Path:
    """
    Create the folder, accessible only to its owner.

    :raises BackfillError: if it belongs to another user, or cannot be created.
    """
    made = folder()
    try:
        made.mkdir(parents=True, exist_ok=True, mode=_OWNER_ONLY)
        if made.stat().st_uid != os.getuid():
            raise BackfillError(f"{made} belongs to another user; set XDG_STATE_HOME to one of your own folders")
        made.chmod(_OWNER_ONLY)
    except OSError as error:
        raise BackfillError(
            f"{made} cannot be created ({error.strerror}); set XDG_STATE_HOME to a folder that you may write to"
        ) from None
    return made


def record_file() -> Path:
    """Return the file with the engine's record."""
    return folder() / "engine.json"


def token_file() -> Path:
    """Return the file with the token of the engine."""
    return folder() / "token"


def log_file() -> Path:
    """Return the file with the server's log."""
    return folder() / "server.log"


def output_file() -> Path:
    """Return the file with the server's other output, such as errors at its start."""
    return folder() / "output.log"


def logging_file() -> Path:
    """Return the file with the configuration of the server's log."""
    return folder() / "log4j2.properties"


def conf_file() -> Path:
    """Return the file with the configuration of the server."""
    return folder() / "spark.conf"


def read_record() -> EngineRecord | None:
    """Return the record of the engine, whether it still runs or not."""
    try:
        return EngineRecord.model_validate_json(record_file().read_bytes())
    except (FileNotFoundError, PermissionError, ValidationError):
        return None


def running_engine() -> EngineRecord | None:
    """Return the record of the engine, if it runs."""
    record = read_record()
    return record if record is not None and record.process.is_alive() else None


def token_of(remote: Remote) -> str | None:
    """
    Return the token of this user's own engine, if an address names that engine.

    A token is sent in plain text, so it is only for a port on which the engine itself listens, at each address of this
    machine: the client takes the address that the name ``localhost`` has.

    :raises SparkServerUnavailableError: if another process listens on the engine's port.
    """
    if not remote.is_loopback or remote.use_ssl:
        return None
    record = running_engine()
    if record is None or record.port != remote.port:
        return None
    if record.process.listeners(record.port) is not Listeners.OWN:
        raise SparkServerUnavailableError(
            f"not the engine, but another process or none listens at {remote}, so the engine's token is not sent; "
            "start the engine again at another port: airflow-backfill engine stop, then engine start --port N"
        )
    return read_token()


def read_token() -> str | None:
    """Return the engine's token, if it has one."""
    try:
        return token_file().read_text(encoding="ascii").strip() or None
    except FileNotFoundError:
        return None


def make_token() -> str:
    """Make the token of a new engine. A token that leaked is worth nothing after the engine's next start."""
    token = secrets.token_urlsafe(32)
    write_private(token_file(), f"{token}\n")
    return token


def write_private(file: Path, text: str) -> None:
    """Replace a file with one that only its owner may read."""
    replace_file(file, text.encode(), mode=_OWNER_ONLY_FILE)
