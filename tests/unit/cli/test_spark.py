"""How a command gets Spark: where it may start or connect, and what must not be on a command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.spark_settings import STORAGE_OPTIONS_VARIABLE
from airflow_backfill_provider.cli import spark
from airflow_backfill_provider.core.errors import SparkServerUnavailableError
from airflow_backfill_provider.core.remote import Remote
from tests.unit.cli.conftest import fails


@pytest.fixture(autouse=True)
def _state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("secret", "variable"),
    [("token=very-secret", "SPARK_CONNECT_AUTHENTICATE_TOKEN"), ("x-api-key=very-secret", "SPARK_REMOTE")],
)
def test_a_secret_of_a_server_is_refused_on_the_command_line(created, engine, secret, variable):
    """Every user of the machine can read a command line."""
    result = created("run", "--master", f"sc://spark.example:15002/;{secret}")
    assert (result.exit_code, engine.starts) == (2, 0)
    assert variable in result.stderr
    assert "very-secret" not in result.output


def test_a_secret_in_the_environment_is_accepted(created, engine, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example:15002/;x-api-key=very-secret")
    assert created("run").exit_code == 0
    assert engine.starts == 1


@pytest.mark.parametrize("master", ["sc://", "sc://host/path"])
def test_an_invalid_address_is_wrong_usage(created, engine, master):
    assert created("run", "--master", master).exit_code == 2
    assert engine.starts == 0


def test_a_local_engine_as_master_must_run():
    with pytest.raises(
        SparkServerUnavailableError, match="no engine is running; start it: airflow-backfill engine start"
    ):
        spark._remote("engine")


@pytest.mark.parametrize(
    ("master", "server"),
    [(None, None), ("local[2]", None), ("yarn", None), ("sc://spark.example:1", Remote(host="spark.example", port=1))],
)
def test_a_command_connects_to_a_server_and_starts_any_other_master(master, server):
    assert spark._remote(master) == server


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", ""),
        ("WARN nothing", ""),
        ("WARN x\n  java.io.IOException: no space \nError: later", " (java.io.IOException: no space)"),
    ],
)
def test_the_first_error_of_a_jvm_that_did_not_start_is_printed(output, reason):
    assert spark._reason(io.BytesIO(output.encode())) == reason


def test_a_storage_option_that_spark_could_not_use_is_refused_before_spark_starts(created, engine, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, '{"AZURE_STORAGE_TOKEN": "very-secret"}')
    result = created("run")
    fails(result, "AZURE_STORAGE_TOKEN has no counterpart")
    assert "very-secret" not in result.output
    assert engine.starts == 0
