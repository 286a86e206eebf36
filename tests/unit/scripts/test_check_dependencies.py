"""The check of dependencies: what the lock must be, what an audit finds, and what it says when there was none."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts import check_dependencies
from scripts.check_dependencies import accepted_in, faults_of_lock, faults_of_lowest, main, read_lock

HASH = f"--hash=sha256:{'a1' * 32}"
LOCK = f"""# Made by `make lock`.
jinja2==3.1.6 \\
    {HASH} \\
    {HASH}
    # via airflow-backfill-provider (pyproject.toml)
Ruamel.YAML==0.19.1 ; sys_platform == 'linux' \\
    {HASH}
    # via
    #   jinja2
"""
PROJECT = """
[project]
dependencies = ["Jinja2>=3,<4"]
[dependency-groups]
dev = ["ruamel-yaml>=0.18"]
"""
LOWEST = LOCK.replace("3.1.6", "3.0")
RUNTIME = "jinja2==3.1.6\n"
ACCEPTED = """
[tool.check-dependencies.accepted]
CVE-1 = "nobody calls it"
"""


@pytest.fixture(autouse=True)
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(check_dependencies.REQUIRED, raising=False)
    (tmp_path / "constraints").mkdir()
    for python in check_dependencies.PYTHONS:
        (tmp_path / "constraints" / f"python-{python}.txt").write_text(LOCK)
        (tmp_path / "constraints" / f"runtime-python-{python}.txt").write_text(RUNTIME)
    (tmp_path / check_dependencies.LOWEST).write_text(LOWEST)
    (tmp_path / check_dependencies.PROJECT).write_text(PROJECT)
    return tmp_path


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch):
    """Lets pip-audit answer: JSON or text, and what it says on stderr."""

    def answer(said: object, stderr: str = "") -> None:
        text = said if isinstance(said, str) else json.dumps(said)
        done = SimpleNamespace(stdout=text, stderr=stderr, returncode=1)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)

    return answer


def audited(*vulnerabilities: dict[str, object]) -> dict[str, object]:
    return {
        "dependencies": [
            {"name": "jinja2", "version": "3.1.6", "vulns": list(vulnerabilities)},
            {"name": "ruamel-yaml", "version": "0.19.1", "vulns": []},
        ],
        "fixes": [],
    }


VULNERABLE = {"id": "GHSA-1", "aliases": ["CVE-1"], "fix_versions": ["3.1.7"]}


def faults(lock: str) -> list[str]:
    return list(faults_of_lock(read_lock(lock), tomllib.loads(PROJECT)))


def test_a_good_lock_is_read_whole():
    locked = read_lock(LOCK)
    assert [(package.name, package.version, package.hashes) for package in locked] == [
        ("jinja2", "3.1.6", 2),
        ("ruamel-yaml", "0.19.1", 1),
    ]
    assert faults(LOCK) == []


@pytest.mark.parametrize(
    ("lock", "fault"),
    [
        (LOCK.replace("jinja2==3.1.6", "jinja2>=3.1.6"), "jinja2>=3.1.6 is not pinned to one version"),
        (LOCK.replace("jinja2==3.1.6", "jinja2==3.*"), "jinja2==3.* is not pinned to one version"),
        (LOCK.replace("sha256:", "md5:"), "jinja2 has no SHA-256 hash"),
        (LOCK + f"jinja2==3.1.6 {HASH}\n", "jinja2 is locked twice"),
        (LOCK.replace("==3.1.6", "==4.0"), "Jinja2 is locked at 4.0, but pyproject.toml requires <4,>=3"),
        (LOCK.replace("Ruamel.YAML", "other"), "ruamel-yaml is required by pyproject.toml, but not locked"),
    ],
)
def test_a_bad_lock_is_reported(lock, fault):
    assert fault in faults(lock)


def test_a_bad_lock_fails_before_any_service_is_asked(checkout, answers, capsys):
    (checkout / "constraints" / "python-3.13.txt").write_text(LOCK.replace("sha256:", "md5:"))
    assert main() == 1
    assert "constraints/python-3.13.txt is wrong; run make lock" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "fault"),
    [
        ("jinja2==3.1.5\n", "jinja2==3.1.5 is not the version of the lock file, 3.1.6"),
        ("other==1\n", "other==1 is not the version of the lock file, None"),
        (LOCK, "jinja2 has a hash"),
    ],
)
def test_versions_for_users_are_those_of_the_lock_file_without_hashes(checkout, capsys, runtime, fault):
    (checkout / "constraints" / "runtime-python-3.12.txt").write_text(runtime)
    assert main() == 1
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bound", "locked", "fault"),
    [
        ("Jinja2>=3,<4", "3.0", None),
        ("Jinja2==3.0.0", "3.0", None),
        ("Jinja2>=3", "3.1", "pyproject.toml allows Jinja2 from 3 on, but the lowest that is tested is 3.1"),
        ("Jinja2<4", "3.0", "pyproject.toml gives Jinja2 no lower bound"),
    ],
)
@pytest.mark.parametrize("in_extra", [False, True])
def test_a_lower_bound_is_the_version_that_is_tested(bound, locked, fault, in_extra):
    own = {"dependencies": [], "optional-dependencies": {"any": [bound]}} if in_extra else {"dependencies": [bound]}
    found = list(faults_of_lowest(read_lock(LOWEST.replace("==3.0", f"=={locked}")), {"project": own}))
    assert found == ([] if fault is None else [fault])


def test_a_lower_bound_that_is_not_tested_fails(checkout, answers, capsys):
    (checkout / check_dependencies.LOWEST).write_text(LOCK)
    assert main() == 1
    assert "lowest-python-3.11.txt is wrong" in capsys.readouterr().err


def test_nothing_found_is_good(answers, capsys):
    answers(audited())
    assert main() == 0
    assert "none of the 2 packages" in capsys.readouterr().out


def test_a_known_vulnerability_fails_with_what_to_do(answers, capsys):
    answers(audited(VULNERABLE))
    assert main() == 1
    said = capsys.readouterr().err
    assert "jinja2 3.1.6: GHSA-1 = CVE-1 (fixed in 3.1.7)" in said
    assert "make lock ARGS=--upgrade" in said


def test_a_vulnerability_that_is_accepted_under_any_of_its_names_does_not_fail(checkout, answers, capsys):
    (checkout / check_dependencies.PROJECT).write_text(PROJECT + ACCEPTED)
    answers(audited(VULNERABLE))
    assert main() == 0
    assert "accepted: jinja2 3.1.6: GHSA-1 = CVE-1 (fixed in 3.1.7): nobody calls it" in capsys.readouterr().out


def test_an_acceptance_that_is_not_needed_any_more_is_reported(checkout, answers, capsys):
    (checkout / check_dependencies.PROJECT).write_text(PROJECT + ACCEPTED)
    answers(audited())
    assert main() == 0
    assert "CVE-1 no longer needs to be accepted" in capsys.readouterr().out


def test_nothing_is_accepted_without_a_reason():
    with pytest.raises(ValueError, match="give the reason in pyproject.toml why CVE-1 does no harm here"):
        accepted_in(tomllib.loads('[tool.check-dependencies.accepted]\nCVE-1 = " "'))


@pytest.mark.parametrize(
    ("answer", "stderr", "why"),
    [
        ("", "Traceback\nConnectionError: no route\n", "ConnectionError: no route"),
        ("<html>proxy</html>", "", "and no output"),
        ({"dependencies": audited()["dependencies"][:1]}, "", "no answer for ruamel-yaml"),
        ({"dependencies": [{"name": "jinja2", "skip_reason": "unknown"}]}, "", "no answer for jinja2, ruamel-yaml"),
    ],
)
def test_no_answer_never_looks_like_a_success(answers, capsys, monkeypatch, answer, stderr, why):
    answers(answer, stderr)
    assert main() == 0
    said = capsys.readouterr()
    assert "NOT AUDITED" in said.err
    assert why in said.err
    assert "vulnerab" not in said.out

    monkeypatch.setenv(check_dependencies.REQUIRED, "1")
    assert main() == 1


def test_waiting_for_an_answer_times_out(monkeypatch, capsys):
    def hang(command, *, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hang)
    assert main() == 0
    assert "NOT AUDITED" in capsys.readouterr().err
