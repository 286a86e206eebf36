"""Scripts that stand in for Java and for Spark's programs, and a folder of jars."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.collector import PARALLEL, SERIAL
from airflow_backfill_provider.applications.spark_settings import AVRO_LIMITS, JARS_VARIABLE, spark_conf

JAVA = "#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n"


def options_of(master: str = "local[*]", rows: int | None = None) -> str | None:
    """Return Java's options but those that limit Avro and choose a collector."""
    options = spark_conf(master, rows=rows)["spark.driver.defaultJavaOptions"]
    for left_out in (AVRO_LIMITS, PARALLEL, SERIAL):
        options = options.replace(left_out, "")
    return options.strip() or None


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def java(tmp_path, monkeypatch):
    """A Java, and a Python beside which spark-submit would lie."""
    found = program(tmp_path / "bin" / "java", JAVA)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    return found


@pytest.fixture
def jars(tmp_path, monkeypatch):
    folder = tmp_path / "the jars"
    folder.mkdir()
    (folder / "delta.jar").touch()
    monkeypatch.setenv(JARS_VARIABLE, str(folder))
    return folder
