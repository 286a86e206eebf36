"""What prepares a machine. The tests of the archiver make an archive, and `make install` fetches jars."""

from __future__ import annotations

import sys

from typer.testing import CliRunner

from airflow_backfill_provider.applications import jars
from airflow_backfill_provider.applications.spark_settings import JARS_VARIABLE
from airflow_backfill_provider.cli.main import app
from tests.unit.cli.conftest import fails


def test_without_java_the_error_names_what_is_missing(monkeypatch, tmp_path):
    for variable in ("JAVA_HOME", JARS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    fails(CliRunner().invoke(app, ["archive-classes"]), "Java")


def test_without_pyspark_no_jars_are_fetched_and_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path / "jars"))
    monkeypatch.setattr(jars, "pyspark_folder", lambda: None)
    fails(CliRunner().invoke(app, ["fetch-jars"]), "airflow-backfill-provider[spark]")
    assert not (tmp_path / "jars").exists()


def test_examples_are_written_once(tmp_path):
    first = CliRunner().invoke(app, ["examples", str(tmp_path)])
    assert "wrote" in first.stdout
    assert "wrote" not in CliRunner().invoke(app, ["examples", str(tmp_path)]).stdout


def test_constraints_are_printed_for_pip():
    printed = CliRunner().invoke(app, ["constraints"])
    assert printed.exit_code == 0
    assert "apache-airflow==" in printed.stdout
