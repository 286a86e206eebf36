"""The loop of the demos' writers."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WRITER = """
from demo.orders_writer import write_until_stopped

class Writer:
    class report:
        commits = 0

    def commit(self):
        self.report.commits += 1
        if self.report.commits == 1:
            print("writes", flush=True)

write_until_stopped(Writer(), commits=None, pause=lambda: 0.0, report=None)
"""


@pytest.mark.slow
def test_a_writer_ends_at_a_signal_wherever_the_signal_finds_it():
    """Of a writer that locks in its handler, every fourth one hung."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER], stdout=subprocess.PIPE) for _ in range(20)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"writes\n"
            writer.send_signal(signal.SIGTERM)
        assert [writer.wait(30) for writer in writers] == [0] * len(writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
