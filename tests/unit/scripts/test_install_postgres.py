"""The script that installs PostgreSQL if it is missing, with stand-ins for what would change the machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "install_postgres.sh"
PROGRAMS = ("bash", "env")


@pytest.fixture
def machine(tmp_path):
    """A folder that is the PATH, with the shell's own programs only."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        found = next(Path(folder, name) for folder in os.get_exec_path() if Path(folder, name).exists())
        (programs / name).symlink_to(found)
    return programs


def add(machine: Path, name: str, script: str) -> None:
    program = machine / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def install(machine: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    # A copy that looks for the programs elsewhere, as this machine may have them.
    copy = machine.parent / "install.sh"
    text = SCRIPT.read_text(encoding="utf-8")
    assert "/usr/lib/postgresql/15/bin" in text
    copy.write_text(text.replace("/usr/lib/postgresql/15/bin", str(machine.parent / "bin")), encoding="utf-8")
    return subprocess.run(
        [machine / "bash", copy], capture_output=True, text=True, check=False, env={"PATH": str(machine), **environment}
    )


def installs(machine: Path) -> None:
    """Let apt-get make the programs, and write down how it was called."""
    folder = machine.parent
    add(
        machine,
        "apt-get",
        f'echo "$DEBIAN_FRONTEND $*" >>{folder}/calls\n'
        f'case "$*" in *install*) /bin/mkdir -p {folder}/bin; echo >{folder}/bin/initdb; '
        f"/bin/chmod +x {folder}/bin/initdb;; esac",
    )


@pytest.mark.parametrize("user", [0, 1000])
def test_it_installs_the_package_and_then_has_nothing_to_do(machine, user):
    add(machine, "id", f"echo {user}")
    add(machine, "sudo", f'echo sudo >>{machine.parent}/calls; exec "$@"')
    installs(machine)
    done = install(machine)
    assert done.returncode == 0, done.stderr
    calls = (machine.parent / "calls").read_text().splitlines()
    update, install_package = [call for call in calls if call != "sudo"]
    assert update == "noninteractive -qq update"
    assert install_package == "noninteractive -qq install --yes --no-install-recommends postgresql-15"
    assert calls.count("sudo") == (2 if user else 0)
    assert install(machine).stdout == ""
    assert (machine.parent / "calls").read_text().splitlines() == calls


@pytest.mark.parametrize(
    ("programs", "reason"),
    [
        ({}, "no apt-get"),
        ({"apt-get": "exit 0", "id": "echo 1000"}, "no sudo"),
        ({"apt-get": "exit 100", "id": "echo 0"}, "network"),
        ({"apt-get": "exit 0", "id": "echo 0"}, "has no program initdb"),
    ],
)
def test_where_it_cannot_it_says_how_to_do_it_by_hand(machine, programs, reason):
    for name, script in programs.items():
        add(machine, name, script)
    done = install(machine)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "apt-get install postgresql-15" in done.stderr
    assert "DEMO_POSTGRES_BIN" in done.stderr


def test_a_folder_that_is_named_is_used_and_never_installed(machine):
    installs(machine)
    add(machine, "id", "echo 0")
    done = install(machine, DEMO_POSTGRES_BIN=str(machine))
    assert done.returncode == 1
    assert f"{machine}, which has no program initdb" in done.stderr
    assert not (machine.parent / "calls").exists()
    add(machine, "initdb", "")
    assert install(machine, DEMO_POSTGRES_BIN=str(machine)).returncode == 0
