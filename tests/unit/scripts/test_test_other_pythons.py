"""The script that tests other Pythons, with stand-ins for `make` and for Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "test_other_pythons.sh"
PROGRAMS = ("bash", "env", "ln", "mkdir", "realpath")


@pytest.fixture
def machine(tmp_path):
    """A folder that is the PATH: the shell's own programs, and a `make` that writes down how it was called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        found = next(Path(folder, name) for folder in os.get_exec_path() if Path(folder, name).exists())
        (programs / name).symlink_to(found)
    add(programs, "make", 'echo "$PYTHON $*" >>calls; for word; do [ "$word" != "$FAILING" ] || exit 2; done')
    return programs


def add(machine: Path, name: str, script: str) -> None:
    program = machine / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def run(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(machine), "HOME": str(machine.parent / "home"), **environment}
    command = [machine / "bash", SCRIPT, ".venv", "3.11", "3.11", "3.12", "3.13"]
    return subprocess.run(command, cwd=machine.parent, capture_output=True, text=True, check=False, env=environment)


def calls(machine: Path) -> list[str]:
    """Return how `make` was called."""
    file = machine.parent / "calls"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def test_a_machine_without_other_pythons_says_so_and_passes(machine):
    done = run(machine)
    assert done.returncode == 0
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "NOT TESTED: Python 3.12",
        "NOT TESTED: Python 3.13",
    ]
    assert calls(machine) == []


def test_each_other_python_is_set_up_and_tested_in_an_environment_of_its_own(machine):
    """A shim of pyenv is no Python: it refuses a version that is not chosen. The own Python was tested before."""
    add(machine, "python3.11", "exit 0")
    add(machine, "python3.12", "exit 127")
    add(machine, "python3.13", "exit 0")
    chosen = machine.parent / "home" / ".pyenv" / "versions" / "3.12.7" / "bin"
    chosen.mkdir(parents=True)
    add(chosen, "python", "exit 0")
    done = run(machine)
    assert done.returncode == 0, done.stderr
    assert calls(machine) == [
        f"{python} --no-print-directory VENV=.venv-{version} PYTHON_VERSION={version} {targets}"
        for version, python in (("3.12", f"{chosen}/python"), ("3.13", "python3.13"))
        for targets in ("install", "test-fast test-smoke")
    ]
    own = machine.parent / ".venv" / "share" / "airflow-backfill"
    assert (machine.parent / ".venv-3.12" / "share" / "airflow-backfill").readlink() == own


@pytest.mark.parametrize(
    ("failing", "what"), [("install", "packages could not be installed into .venv-3.12"), ("test-smoke", "test failed")]
)
def test_what_failed_is_said_and_the_next_python_is_tested_all_the_same(machine, failing, what):
    add(machine, "python3.12", "exit 0")
    add(machine, "python3.13", "exit 0")
    done = run(machine, FAILING=failing)
    assert done.returncode == 1
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" Python 3.12", " Python 3.13"]
    assert what in done.stderr


def test_a_python_for_which_no_time_is_left_is_not_tested(machine):
    """A server ends what takes too long, and then nothing is known of the tests that passed."""
    add(machine, "python3.12", "exit 0")
    done = run(machine, MINUTES="-3")
    assert done.returncode == 0
    assert "NOT TESTED: Python 3.12, because there is no time left" in done.stdout
    assert calls(machine) == []
