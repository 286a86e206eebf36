"""
Programs that hang until their test is over, and no longer.

Killing what a test started does not do: a supervisor that is about to start its application at that very moment leaves
one that nobody knows of. So a hanging program holds a connection to its test. It ends when that does, also if nobody
kills it, and one that starts too late has nothing to hold on to.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

VARIABLE = "TEST_LIFELINE"

HANG_IN_PYTHON = f"import os, socket; socket.create_connection(('127.0.0.1', os.environ['{VARIABLE}'])).recv(1)"
HANG_IN_BASH = f"read -r </dev/tcp/127.0.0.1/${VARIABLE}"


@contextmanager
def lifeline() -> Iterator[str]:
    """Give what hanging programs need in their environment; wait for the supervisors of this process in the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])
    supervisors = [
        process
        for process in psutil.process_iter(["cmdline", "ppid"])
        if process.info["ppid"] == os.getpid()
        and "airflow_backfill_provider.runtime.supervisor" in (process.info["cmdline"] or ())
    ]
    assert not psutil.wait_procs(supervisors, 60)[1], "a supervisor goes on after its application"
