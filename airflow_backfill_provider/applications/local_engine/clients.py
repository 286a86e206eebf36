"""
The processes that use the engine now.

The server cannot list them. So each of them writes a file into the engine's folder and locks it; the operating system
releases the lock when the process ends.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from airflow_backfill_provider.applications.local_engine.engine_files import folder, running_engine
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.remote import Remote


class Client(Frozen):
    """
    A process that uses the engine.

    :param what: the purpose.
    :param pid: the process id.
    :param since: when the process connected.
    """

    what: str
    pid: int
    since: dt.datetime


@contextmanager
def announced(remote: Remote, session_id: str, what: str) -> Iterator[None]:
    """List this process in the engine's status during the block, if it uses the engine."""
    record = running_engine()
    if record is None or not remote.is_loopback or remote.port != record.port:
        yield
        return
    file = _clients() / f"{session_id}.json"
    file.parent.mkdir(exist_ok=True, mode=0o700)
    with file.open("w", encoding="utf-8") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.write(Client(what=what, pid=os.getpid(), since=dt.datetime.now(tz=dt.UTC)).model_dump_json())
        opened.flush()
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def clients() -> tuple[Client, ...]:
    """Return the processes that use the engine, oldest first. Remove the files of dead ones."""
    found = [client for file in _clients().glob("*.json") if (client := _alive(file)) is not None]
    return tuple(sorted(found, key=lambda client: client.since))


def _alive(file: Path) -> Client | None:
    with suppress(FileNotFoundError, ValidationError), file.open("r+", encoding="utf-8") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Client.model_validate_json(opened.read())
        file.unlink(missing_ok=True)
    return None


def _clients() -> Path:
    return folder() / "clients"
