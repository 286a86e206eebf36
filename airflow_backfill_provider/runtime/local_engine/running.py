"""A process by more than its number, which the system gives to another one as soon as it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19
"""Fields of a process's ``stat`` behind its name."""


class Running(BaseModel):
    """
    A process, of which there never was and never will be another.

    :param pid: its number.
    :param started: when it started, in ticks since the machine did.
    :param boot: which start of the machine that was.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Return the process that has a number now; ``None`` if none has, or one that ended and was not collected."""
        try:
            fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            return None
        if fields[_STATE] in "ZX":
            return None
        return cls(pid=pid, started=int(fields[_STARTED]), boot=_boot())

    def is_alive(self) -> bool:
        """Tell whether this very process still runs."""
        return Running.of(self.pid) == self

    def resident_bytes(self) -> int | None:
        """Return how much memory it holds."""
        try:
            lines = (_PROC / str(self.pid) / "status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), None)


def _boot() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
