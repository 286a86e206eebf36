"""One run of a demo: what it works with."""

from __future__ import annotations

from dataclasses import dataclass

from demo.folder import DemoFolder
from demo.processes import Processes
from demo.terminal import Terminal


@dataclass(frozen=True, slots=True)
class DemoRun:
    """
    What one run of a demo works with.

    :param folder: the demo's folder.
    :param servers: processes that the others need; they are ended last.
    :param processes: all other processes in the background.
    :param terminal: prints to the user.
    """

    folder: DemoFolder
    servers: Processes
    processes: Processes
    terminal: Terminal

    def require_alive(self) -> None:
        """
        Check that nothing in the background has died.

        :raises DemoError: if something has; the error names it.
        """
        self.servers.require_alive()
        self.processes.require_alive()
