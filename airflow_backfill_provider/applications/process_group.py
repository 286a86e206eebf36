"""Starts a process of which the output is read, and ends it together with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress


def start_group(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """
    Start a process that leads its own process group, so that ending it ends nothing of its parent's.

    Its output and its errors are one text to read. It gets no input.

    :raises OSError: if it cannot be started.
    """
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def end_group(process: subprocess.Popen[str], grace_seconds: float) -> None:
    """
    End a process that leads its own process group, and the group: first with SIGTERM, then with SIGKILL.

    :param grace_seconds: how long the process may clean up before it is killed.
    """
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            _wait(process, grace_seconds)
        elif process.returncode >= 0:
            # A JVM that ended by itself has waited for its Python. Another group may have the group's id by now.
            return
        os.killpg(process.pid, signal.SIGKILL)


def _wait(process: subprocess.Popen[str], seconds: float) -> None:
    """Wait for a process in steps, because a signal handler may have interrupted the call that waits for it."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
