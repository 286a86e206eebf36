"""Telling a process from another one with the same number."""

from __future__ import annotations

import os
import subprocess
import sys

from airflow_backfill_provider.runtime.local_engine.known_process import KnownProcess


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
