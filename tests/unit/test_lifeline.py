"""A program that hangs in a test ends with it, whichever process started it, and whenever."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.lifeline import HANG_IN_BASH, HANG_IN_PYTHON, VARIABLE, lifeline


@pytest.mark.parametrize(
    "command", [["bash", "-c", HANG_IN_BASH], [sys.executable, "-Sc", HANG_IN_PYTHON]], ids=["bash", "python"]
)
def test_a_program_hangs_until_its_test_is_over(command):
    with lifeline() as port:
        environment = {**os.environ, VARIABLE: port}
        hanging = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            hanging.wait(0.1)

    assert hanging.wait(30)
    late = subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, timeout=30, check=False)
    assert late.returncode
