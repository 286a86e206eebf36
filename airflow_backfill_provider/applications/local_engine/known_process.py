"""Identifies a process by more than its id, because the system reuses the ids of ended processes."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import Self

import psutil

from airflow_backfill_provider.core.frozen import Frozen


class Listeners(StrEnum):
    """Who listens on a port."""

    NOBODY = "nobody"
    OWN = "own"
    OTHERS = "others"


_SECONDS_OFF = 2.0
"""How far a change of the clock may shift a process's start time. No process id is reused within that time."""


class KnownProcess(Frozen):
    """
    A process, identified by its id and its start time.

    :param pid: the process id.
    :param started: when it started, in seconds since 1970.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the process that currently has an id; ``None`` if there is none, or only a zombie."""
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return cls(pid=pid, started=process.create_time())
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Return whether this same process still runs."""
        found = KnownProcess.of(self.pid)
        return found is not None and abs(found.started - self.started) < _SECONDS_OFF

    def listeners(self, port: int) -> Listeners:
        """
        Return who listens on a port of this machine: nobody, this process and those that it started, or others.

        A socket that is opened during a look may seem to belong to nobody known, so others are looked at twice.
        """
        found = self._look_at(port)
        return self._look_at(port) if found is Listeners.OTHERS else found

    def _look_at(self, port: int) -> Listeners:
        # The owner of a socket of another user is not known.
        owners = {
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        }
        if not owners:
            return Listeners.NOBODY
        return Listeners.OWN if self.is_alive() and owners <= self._family() else Listeners.OTHERS

    def _family(self) -> set[int]:
        with suppress(psutil.Error):
            return {self.pid, *(child.pid for child in psutil.Process(self.pid).children(recursive=True))}
        return {self.pid}

    def resident_bytes(self) -> int | None:
        """Return the resident memory of the process; ``None`` if that cannot be read."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return None
