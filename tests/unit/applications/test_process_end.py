"""A process ends with its code, after all output, and without tearing the interpreter down."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # starts processes

PROGRAM = """
import atexit, sys
from airflow_backfill_provider.applications.process_end import end_process_with

class TornDown:
    def __del__(self):
        print("the interpreter was torn down", file=sys.stderr)

sys.kept = TornDown()
atexit.register(print, "the end")

def main():
    sys.stdout.write("output ")
    {}

end_process_with(main)
"""


@pytest.mark.parametrize(
    ("ending", "code", "errors"),
    [
        ("return 3", 3, ""),
        ("pass", 0, ""),
        ("sys.exit(2)", 2, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('a reason')", 1, "a reason"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ],
)
def test_the_code_is_that_of_the_program_and_nothing_is_torn_down(ending, code, errors):
    """Threads of other libraries must not meet an interpreter that is half gone: that aborts the process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(ending)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "output the end\n")
    assert done.stderr.strip().splitlines()[-1:] == ([errors] if errors else [])


def test_a_reader_that_is_gone_changes_no_code():
    program = PROGRAM.format("sys.stdout.write('x' * 100_000); return 0")
    piped = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert piped.stdout is not None
    piped.stdout.close()
    piped.communicate()
    assert piped.returncode in (0, 1)
