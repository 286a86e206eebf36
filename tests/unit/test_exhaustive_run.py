"""The record of what `make test-exhaustive` found, and its table."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from docs import generated
from tests.exhaustive_run import PAGE, Played, Recorder, record, recorded, seconds, table

PLUGIN = """
import os
from pathlib import Path
from tests.exhaustive_run import Recorder

def pytest_configure(config):
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Recorder(Path("tests/exhaustive_run.json").absolute()))
"""


@pytest.fixture
def file(tmp_path):
    """A record beside two files of tests."""
    for name in ("tests/model/test_a.py", "tests/model/test_b.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "tests" / "exhaustive_run.json"


def report(test, when, outcome, took=1.0):
    return SimpleNamespace(nodeid=test, when=when, outcome=outcome, duration=took)


def test_each_test_counts_once_by_the_worst_that_became_of_it(file):
    """A test whose end fails has failed, and one that the run was ended in was not played."""
    recorder = Recorder(file)
    recorder.found(
        f"tests/model/test_a.py::test_{name}" for name in ("right", "wrong", "end", "not_here", "cut", "later", "died")
    )
    for test, when, outcome in [
        ("right", "setup", "passed"),
        ("right", "call", "passed"),
        ("right", "teardown", "passed"),
        ("wrong", "call", "failed"),
        ("wrong", "teardown", "passed"),
        ("end", "call", "passed"),
        ("end", "teardown", "failed"),
        ("not_here", "setup", "skipped"),
        ("not_here", "teardown", "passed"),
        ("cut", "setup", "passed"),
        ("died", "???", "failed"),  # what xdist says of a process that has died
    ]:
        recorder.pytest_runtest_logreport(report(f"tests/model/test_a.py::test_{test}", when, outcome))
    recorder.pytest_sessionfinish()
    (found,) = recorded(file).values()
    assert found == Played(tests=7, passed=1, skipped=1, failed=3, seconds=11.0)
    assert found.not_played == 2


def test_a_run_replaces_the_files_that_it_played_and_keeps_the_others(file):
    """So one file can be played again without an hour for all."""
    record({name: Played(1, 1, 0, 0, 2.04) for name in ("tests/model/test_a.py", "tests/model/test_b.py")}, file)
    record({"tests/model/test_b.py": Played(2, 1, 0, 1, 5.0)}, file)
    assert recorded(file) == {
        "tests/model/test_a.py": Played(1, 1, 0, 0, 2.0),
        "tests/model/test_b.py": Played(2, 1, 0, 1, 5.0),
    }
    assert seconds(file) == {"tests/model/test_a.py": 2.0, "tests/model/test_b.py": 5.0}


def test_a_file_that_is_gone_is_forgotten(file):
    record({"tests/model/test_gone.py": Played(1, 1), "tests/model/test_a.py": Played(1, 1)}, file)
    assert list(recorded(file)) == ["tests/model/test_a.py"]


def test_the_table_has_a_line_for_each_folder_and_one_for_all():
    files = {
        "tests/integration/kafka/test_a.py": Played(3, 2, 0, 0, 90.0),
        "tests/integration/kafka/test_b.py": Played(1, 0, 0, 1, 30.0),
        "tests/unit/state/test_c.py": Played(2, 1, 1, 0, 0.4),
    }
    header, _, *lines = table(files).splitlines()
    assert header == "| folder | files | tests | passed | skipped | failed | not played | minutes |"
    assert lines == [
        "| `tests/integration/kafka` | 2 | 4 | 2 | 0 | 1 | 1 | 2.0 |",
        "| `tests/unit` | 1 | 2 | 1 | 1 | 0 | 0 | 0.0 |",
        "| together | 3 | 6 | 3 | 1 | 1 | 1 | 2.0 |",
    ]


def test_the_table_in_the_page_is_that_of_the_record():
    """After a run: python -m tests.exhaustive_run --write."""
    text = PAGE.read_text(encoding="utf-8")
    assert generated.refilled(text, {"exhaustive run": table(recorded())}) == text
    assert "<!-- generated: exhaustive run -->" in text


@pytest.mark.slow
@pytest.mark.parametrize("processes", [(), ("--numprocesses=2", "--dist=loadfile")], ids=["alone", "side by side"])
def test_a_run_writes_what_became_of_its_tests(tmp_path, processes):
    """The process that writes the record plays the tests, or only hears of them."""
    folder = tmp_path / "tests" / "model"
    folder.mkdir(parents=True)
    (folder / "test_a.py").write_text(
        "def test_1(): ...\ndef test_2(): assert False\ndef test_3(): ...\n", encoding="utf-8"
    )
    (tmp_path / "recording.py").write_text(PLUGIN, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "recording", "-p", "no:cacheprovider", "-c", "/dev/null", "-x"]
    # What this run tells its workers is not for the other one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ended = subprocess.run(
        [*command, "--rootdir=.", "-p", "no:randomly", *processes],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(PAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed" in ended.stdout, ended.stdout + ended.stderr
    (found,) = recorded(tmp_path / "tests" / "exhaustive_run.json").values()
    assert (found.tests, found.passed, found.failed, found.not_played) == (3, 1, 1, 1)
