"""
What the engine is used for at the moment.

The server itself tells nobody. So whoever works on it leaves a file in the engine's folder and holds its lock, which
ends with the process, however that dies.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import ValidationError

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.runtime.local_engine.engine_files import folder, running_engine


class Client(Frozen):
    """
    A process that works on the engine.

    :param what: what for.
    :param pid: its process.
    :param since: when it connected.
    """

    what: str
    pid: int
    since: dt.datetime


@contextmanager
def announced(remote: Remote, session_id: str, what: str) -> Iterator[None]:
    """Let the engine's status show this process while the block runs, if the engine is what it works on."""
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
    """Return who works on the engine, oldest first; what the dead left is removed."""
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
