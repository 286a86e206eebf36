"""Spark as a command gets it: where it may start or connect, and what must not stand on a command line."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.cli import spark
from airflow_backfill_provider.core.errors import SparkServerUnavailableError
from airflow_backfill_provider.runtime.spark_settings import STORAGE_OPTIONS_VARIABLE


def test_a_token_on_the_command_line_is_refused(created, engine):
    result = created("run", "--master", "sc://localhost/;token=very-secret")
    assert result.exit_code == 2
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" in result.stderr
    assert "very-secret" not in result.output
    assert engine.starts == 0


def test_a_token_in_the_environment_is_fine(created, engine, monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost/;token=very-secret")
    assert created("run").exit_code == 0
    assert engine.starts == 1


@pytest.mark.parametrize("master", ["sc://", "sc://host/path"])
def test_an_address_that_is_none_is_wrong_usage(created, engine, master):
    assert created("run", "--master", master).exit_code == 2
    assert engine.starts == 0


def test_the_engine_as_a_master_must_run():
    with pytest.raises(
        SparkServerUnavailableError, match="no engine is running; start it: airflow-backfill engine start"
    ):
        spark._remote("engine")


@pytest.mark.parametrize("secret", ["token=very-secret", "x-api-key=very-secret"])
def test_a_secret_of_a_server_is_refused_on_the_command_line_and_taken_from_the_environment(
    created, engine, monkeypatch, secret
):
    """Everybody on the machine can read a command line."""
    address = f"sc://spark.example:15002/;{secret}"
    result = created("run", "--master", address)
    assert (result.exit_code, engine.starts) == (2, 0)
    assert "SPARK_REMOTE" in result.stderr
    assert "very-secret" not in result.output

    assert created("run", "--master", "sc://spark.example:15002").exit_code == 0
    monkeypatch.setenv("SPARK_REMOTE", address)
    assert created("run").exit_code == 0


def fails(result, *texts: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("airflow-backfill: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr


def test_a_storage_option_that_spark_could_not_use_is_refused_before_spark_starts(created, engine, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, '{"AZURE_STORAGE_TOKEN": "very-secret"}')
    result = created("run")
    fails(result, "AZURE_STORAGE_TOKEN has no counterpart")
    assert "very-secret" not in result.output
    assert engine.starts == 0
