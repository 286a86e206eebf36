"""A process by more than its number, which the system gives to another one as soon as it ended."""

from __future__ import annotations

from typing import Self

import psutil

from airflow_backfill_provider.core.frozen import Frozen

_SECONDS_OFF = 2.0
"""By how much a change of the clock may move the start of a process; no number is given again within that."""


class KnownProcess(Frozen):
    """
    A process, of which there never was and never will be another.

    :param pid: its number.
    :param started: when it started, in seconds since 1970.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the process that has a number now; ``None`` if none has, or one that ended and was not collected."""
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return cls(pid=pid, started=process.create_time())
        except psutil.Error:
            return None

    def is_alive(self) -> bool:
        """Tell whether this very process still runs."""
        found = KnownProcess.of(self.pid)
        return found is not None and abs(found.started - self.started) < _SECONDS_OFF

    def resident_bytes(self) -> int | None:
        """Return how much memory it holds; ``None`` if nobody may know."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return None
