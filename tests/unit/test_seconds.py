"""The record of how long files of tests take, and their budgets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.seconds import LARGER, OF_A_FILE, OF_ALL, Recorder, over_budget, record, recorded


@pytest.fixture
def root(tmp_path):
    """A folder with some files of tests."""
    for name in ("tests/test_a.py", "tests/test_b.py", *LARGER):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return tmp_path


def test_a_run_replaces_the_files_that_it_played_and_keeps_the_others(tmp_path):
    """So one file can be recorded again without a run of all."""
    file = tmp_path / "seconds.json"
    record({"tests/test_a.py": 10.04, "tests/test_b.py": 20.0, "tests/test_quick.py": 0.4}, file)
    record({"tests/test_b.py": 5.0}, file)
    assert recorded(file) == {"tests/test_a.py": 10.0, "tests/test_b.py": 5.0}
    assert file.read_text(encoding="utf-8") == '{\n"tests/test_a.py": 10.0,\n"tests/test_b.py": 5.0\n}\n'


def test_without_a_record_no_file_is_known(tmp_path):
    assert recorded(tmp_path / "seconds.json") == {}


def test_set_up_calls_and_ends_count_for_their_file(tmp_path):
    """A fixture of a file's module is made in the set-up of its first test."""
    recorder = Recorder(tmp_path / "seconds.json")
    for test, took in [
        ("a.py::test_1", 2.5),
        ("a.py::test_1", 1.0),
        ("b.py::test_2[x::y]", 3.0),
        ("a.py::test_3", 0.5),
    ]:
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=test, duration=took))
    recorder.pytest_sessionfinish()
    assert recorded(tmp_path / "seconds.json") == {"a.py": 4.0, "b.py": 3.0}


@pytest.mark.parametrize("name", ["tests/test_a.py", *LARGER])
def test_a_file_above_its_budget_is_named_with_both_numbers(root, name):
    budget = LARGER.get(name, OF_A_FILE)
    assert over_budget({name: budget}, root) == []
    (fault,) = over_budget({name: budget + 1}, root)
    assert fault.startswith(f"{name} took {budget + 1:.0f} s, and its budget is {budget:.0f} s: ")


def test_many_files_within_their_budgets_may_be_too_much_together(root):
    files = {f"tests/test_{n}.py": OF_A_FILE for n in range(int(OF_ALL / OF_A_FILE) + 1)}
    for name in files:
        (root / name).touch()
    (fault,) = over_budget(files, root)
    assert "all files took" in fault


def test_a_file_that_is_gone_is_taken_out(root):
    """Otherwise a renamed file would count twice."""
    (fault,) = over_budget({"tests/test_gone.py": 5.0}, root)
    assert fault == "tests/test_gone.py is recorded, but does not exist: take out its line"
