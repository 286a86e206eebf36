"""Processes in the background that never outlive the demo."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.folder import CHECKOUT, DemoError

KILL_SECONDS = 10

_FAMILY = "AIRFLOW_BACKFILL_DEMO_FAMILY"
"""An environment variable that all descendants of a demo's processes inherit."""


@dataclass(frozen=True, slots=True)
class _Started:
    """
    A process in the background.

    :param ending: the signal that asks it to end.
    """

    process: subprocess.Popen[bytes]
    ending: signal.Signals

    def ask_to_end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, self.ending)


class Processes:
    """
    Starts processes, each in its own session, and ends them with all of their descendants.

    :param logs: the folder for their output.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._family = uuid.uuid4().hex
        self._started: dict[str, _Started] = {}

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        ending: signal.Signals = signal.SIGTERM,
    ) -> None:
        """
        Start a process; its output goes to a file with its name.

        :param ending: the signal that asks it to end.
        """
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=CHECKOUT,
                env={**(os.environ if environment is None else environment), _FAMILY: self._family},
                start_new_session=True,
            )
        self._started[name] = _Started(process, ending)

    def run(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """
        Run a process to its end.

        :raises DemoError: if it fails.
        """
        self.start(name, command, environment)
        self.finish(name)

    def finish(self, name: str) -> None:
        """
        Wait for the end of a process and of its descendants.

        :raises DemoError: if it failed.
        """
        process = self._started[name].process
        code = process.wait()
        until = time.monotonic() + KILL_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < until:
                os.killpg(process.pid, 0)  # a JVM ends a moment after the Python that started it
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGKILL)
        del self._started[name]
        if code:
            raise DemoError(f"{name} ended with exit code {code}: {self.last_words(name)}")

    def require_alive(self) -> None:
        """
        Check that no process has died.

        :raises DemoError: if one has; the error names it.
        """
        for name, started in self._started.items():
            process = started.process
            if process.poll() is not None:
                raise DemoError(f"{name} ended with exit code {process.returncode}: {self.last_words(name)}")

    def is_alive(self, name: str) -> bool:
        """Return whether a process runs."""
        return self._started[name].process.poll() is None

    def kill(self, name: str) -> None:
        """Kill a process with all of its descendants, and forget it."""
        process = self._started.pop(name).process
        family = _descendants(process.pid)
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, KILL_SECONDS)
        process.wait()

    def end(self, name: str) -> None:
        """
        Ask a process to end, and wait until it has.

        :raises DemoError: if it failed, or does not end.
        """
        started = self._started[name]
        started.ask_to_end()
        try:
            started.process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoError(f"{name} does not end (see {self.log(name)})") from None
        self.finish(name)

    def stop(self, *, patience: float = 20.0) -> None:
        """
        End all processes and their descendants in any session: first with their signals, then with SIGKILL.

        :param patience: how many seconds they have to end by themselves.
        """
        asked = list(self._started.values())
        stopping = [started.process for started in asked]
        self._started.clear()
        family = {member for process in stopping for member in _descendants(process.pid)}
        for started in asked:
            started.ask_to_end()
        until = time.monotonic() + patience
        while any(process.poll() is None for process in stopping) and time.monotonic() < until:
            family.update(member for process in stopping for member in _descendants(process.pid))
            time.sleep(0.2)
        family |= self._mine()
        until = time.monotonic() + KILL_SECONDS
        while family and time.monotonic() < until:
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, KILL_SECONDS)
            # One of them may have started another process before its end.
            family = self._mine()
        for process in stopping:
            process.wait()

    def _mine(self) -> set[psutil.Process]:
        """Return descendants in any session, such as the supervisors of Spark applications."""
        return {process for process in psutil.process_iter() if self._is_mine(process)}

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(_FAMILY) == self._family)
        except psutil.Error:
            return False

    def log(self, name: str) -> Path:
        """Return the file with a process's output."""
        return self._logs / f"{name}.log"

    def last_words(self, name: str) -> str:
        """Return the last line of a process's output, and the path of its file."""
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it printed nothing'} (see {self.log(name)})"


def _descendants(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants that are alive."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def free_port(preferred: int) -> int:
    """Return a free port, the preferred one if possible."""
    for port in (preferred, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise DemoError("there is no free port on this machine")
