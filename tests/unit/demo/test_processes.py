"""Processes of a demo: how they are asked to end, and that a failure is told."""

from __future__ import annotations

import signal
import sys

import pytest

from demo.folder import DemoError
from demo.processes import Processes

WAITING = """
import os, signal

def asked(number, frame):
    print({words!r}, flush=True)
    os._exit({code})

signal.signal(signal.{ending}, asked)
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def processes(tmp_path):
    processes = Processes(tmp_path)
    yield processes
    processes.stop()


def start(processes: Processes, ending: signal.Signals, words: str = "asked", code: int = 0) -> None:
    script = WAITING.format(words=words, code=code, ending=ending.name)
    processes.start("waiting", [sys.executable, "-c", script], ending=ending)
    # With its newline, which an unbuffered Python writes after the word: a signal between the two would split the line.
    while "ready\n" not in processes.log("waiting").read_text():
        processes.require_alive()


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_process_is_asked_to_end_with_the_signal_that_it_wants(processes, ending):
    start(processes, ending)
    processes.end("waiting")
    assert processes.log("waiting").read_text() == "ready\nasked\n"
    processes.require_alive()


def test_a_process_that_fails_at_its_end_is_an_error_with_its_last_words(processes):
    start(processes, signal.SIGTERM, words="no space left", code=3)
    with pytest.raises(DemoError, match="exit code 3: no space left"):
        processes.end("waiting")


def test_all_are_stopped_with_the_signals_that_they_want(processes):
    start(processes, signal.SIGINT)
    processes.stop()
    assert processes.log("waiting").read_text() == "ready\nasked\n"


def test_a_process_that_is_killed_is_forgotten_and_may_be_started_again(processes):
    start(processes, signal.SIGTERM)
    assert processes.is_alive("waiting")
    processes.kill("waiting")
    processes.require_alive()
    start(processes, signal.SIGTERM)
    assert processes.is_alive("waiting")
