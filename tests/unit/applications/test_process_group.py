"""How an application is ended with everything that it started, and what is left alone; with scripts for Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import psutil
import pytest

from airflow_backfill_provider.applications.process_group import end_group, start_group
from tests.unit.lifeline import HANG_IN_BASH

pytestmark = pytest.mark.slow  # processes of their own


@pytest.fixture
def start(lifeline: None) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a script that leads a group of its own, and waits for its first line."""
    started: list[subprocess.Popen[str]] = []

    def make(script: str) -> subprocess.Popen[str]:
        process = start_group(["/bin/bash", "-c", script], os.environ)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield make
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_an_application_that_ignores_the_signal_is_killed_after_its_time(start):
    process = start(f"trap '' TERM; echo ready; {HANG_IN_BASH}")

    end_group(process, 0.2)

    assert process.wait(20) == -signal.SIGKILL


def test_each_process_of_a_group_gets_the_signal_and_time_to_clean_up(start):
    """For example Python and its JVM: the leader waits for the other."""
    process = start(
        f"trap : TERM; (trap 'sleep 0.3; echo tidied; exit 7' TERM; echo ready; ({HANG_IN_BASH}) & wait); exit $?"
    )

    end_group(process, 10)

    assert process.wait(20) == 7
    assert process.stdout.read() == "tidied\n"


def test_the_rest_of_an_application_that_was_killed_is_ended(start):
    process = start(f"(trap '' TERM; echo ready; {HANG_IN_BASH}) & wait")
    (left,) = psutil.Process(process.pid).children()
    process.kill()
    process.wait(20)

    end_group(process, 0.2)

    assert not psutil.wait_procs([left], 20)[1]


def test_the_group_of_an_application_that_ended_by_itself_is_left_alone(start):
    """Another group may have its number by now."""
    process = start(f"({HANG_IN_BASH}) >/dev/null & echo $!")
    process.wait(20)
    left = [found for found in psutil.process_iter() if _group_of(found) == process.pid]
    assert left

    end_group(process, 0.2)

    time.sleep(0.1)
    assert all(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in left)


def _group_of(process: psutil.Process) -> int | None:
    try:
        return os.getpgid(process.pid)
    except ProcessLookupError:
        return None
