"""Telling a process from another one with the same number."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import psutil

from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess, Listeners


def test_this_process_runs():
    this = KnownProcess.of(os.getpid())

    assert this is not None
    assert this.is_alive()
    assert (this.resident_bytes() or 0) > 1_000_000


def test_another_process_with_the_same_number_is_not_it():
    this = KnownProcess.of(os.getpid())

    assert this is not None
    assert not this.model_copy(update={"started": this.started - 60}).is_alive()


def test_a_process_that_ended_does_not_run_also_before_it_was_collected():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    running = KnownProcess.of(process.pid)
    assert running is not None
    assert process.stdin is not None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    assert not running.is_alive()
    process.wait()
    assert KnownProcess.of(process.pid) != running


# --- who listens on a port ------------------------------------------------------------------------


def test_a_port_belongs_to_nobody_to_the_process_itself_or_to_others(port):
    this, parent = KnownProcess.of(os.getpid()), KnownProcess.of(os.getppid())
    assert this is not None
    assert parent is not None
    assert this.listeners(port) is Listeners.NOBODY
    with socket.create_server(("127.0.0.1", port)):
        assert this.listeners(port) is Listeners.OWN
        assert parent.listeners(port) is Listeners.OWN, "it started this one"
        assert this.model_copy(update={"started": this.started - 60}).listeners(port) is Listeners.OTHERS


def test_a_socket_that_is_opened_during_the_look_is_looked_at_again(port, monkeypatch):
    """The system's list of sockets is read after that of the processes' files, so its owner is not known yet."""
    this = KnownProcess.of(os.getpid())
    assert this is not None
    with socket.create_server(("127.0.0.1", port)):
        found = psutil.net_connections("tcp")
        looks = [[connection._replace(pid=None) for connection in found], found]
        monkeypatch.setattr(psutil, "net_connections", lambda _: looks.pop(0))
        assert this.listeners(port) is Listeners.OWN
    assert looks == []
