"""
Programs that hang until their test is over, and no longer.

It is not enough to kill what a test started: a supervisor may start its application at that very moment, and the test
does not know of it. So a hanging program holds a connection to its test. It ends with the connection, also if it is not
killed, and a program that starts too late cannot connect and ends at once.
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
        and "airflow_backfill_provider.applications.supervisor" in (process.info["cmdline"] or ())
    ]
    assert not psutil.wait_procs(supervisors, 60)[1], "a supervisor goes on after its application"
