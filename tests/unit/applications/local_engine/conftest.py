"""A separate folder for the engine, and a program instead of spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.local_engine import server
from tests.ports import free_port

LISTEN = """\
import json, os, pathlib, socket, sys, time
settings = pathlib.Path(sys.argv[sys.argv.index("--properties-file") + 1]).read_text()
conf = dict(line.split("=", 1) for line in settings.splitlines())
here = pathlib.Path({here!r})
(here / "arguments").write_text(json.dumps(sys.argv[1:]))
(here / "environment").write_text(json.dumps(dict(os.environ)))
listening = socket.create_server(("127.0.0.1", int(conf["spark.connect.grpc.binding.port"])))
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the engine of these tests has its folder."""
    home = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


@pytest.fixture
def port() -> int:
    """A free port."""
    return free_port()


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Replaces spark-submit by a Python program; returns the folder with the program's arguments."""

    def place(program: str = LISTEN) -> Path:
        script = tmp_path / "program.py"
        script.write_text(program.format(here=str(tmp_path)), encoding="utf-8")
        submit = tmp_path / "spark-submit"
        submit.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{script}" "$@"\n', encoding="utf-8")
        submit.chmod(0o755)
        monkeypatch.setattr(server, "require_java", lambda: None)
        monkeypatch.setattr(
            server, "spark_environment", lambda: {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        )
        return tmp_path

    yield place
    server.stop_engine()
