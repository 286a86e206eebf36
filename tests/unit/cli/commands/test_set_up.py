"""``archive-classes``: making the archive is in the tests of the archiver."""

from __future__ import annotations

import sys

from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.runtime.spark_settings import JARS_VARIABLE
from tests.unit.cli.conftest import fails


def test_without_java_the_error_names_what_is_missing(monkeypatch, tmp_path):
    for variable in ("JAVA_HOME", JARS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    fails(CliRunner().invoke(app, ["archive-classes"]), "Java")
