"""The commands of the local engine, as far as they need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import app


@pytest.fixture(autouse=True)
def _state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_without_an_engine_its_status_fails_and_says_how_to_start_one():
    result = CliRunner().invoke(app, ["engine", "status"])
    assert result.exit_code == 1
    assert result.stderr == "airflow-backfill: error: no engine is running; start it: airflow-backfill engine start\n"

    result = CliRunner().invoke(app, ["engine", "status", "--json"])
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"running": False}


def test_without_an_engine_there_is_nothing_to_end(tmp_path):
    result = CliRunner().invoke(app, ["engine", "stop"])
    assert (result.exit_code, result.stdout) == (0, "no engine is running\n")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("arguments", [["start", "--port", "0"], ["start", "--conf", "novalue"], ["restart"]])
def test_wrong_usage(arguments):
    assert CliRunner().invoke(app, ["engine", *arguments]).exit_code == 2
