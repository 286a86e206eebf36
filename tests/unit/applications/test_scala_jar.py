"""Building a jar: what is missing is named. The jars themselves are used by the tests on Spark."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.applications import scala_jar
from airflow_backfill_provider.applications.log_store import SOURCE
from airflow_backfill_provider.applications.spark_settings import JARS_VARIABLE
from airflow_backfill_provider.core.errors import SparkUnavailableError


def test_deltas_jars_must_be_there(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=f"{tmp_path} has no jar delta-storage"):
        scala_jar.build_jar(SOURCE, tmp_path / "built.jar")
    assert not [*tmp_path.iterdir()]


def test_pyspark_must_have_its_jars(monkeypatch, tmp_path):
    monkeypatch.setattr(scala_jar, "pyspark_folder", lambda: None)
    with pytest.raises(SparkUnavailableError, match="no PySpark with jars"):
        scala_jar.build_jar(SOURCE, tmp_path / "built.jar")


@pytest.mark.slow
def test_a_file_that_cannot_be_compiled_is_named_and_leaves_no_jar(tmp_path):
    source = tmp_path / "Broken.scala"
    source.write_text('object Broken { def number: Int = "none" }', encoding="utf-8")
    with pytest.raises(SparkUnavailableError, match=r"Broken\.scala could not be compiled .*type mismatch"):
        scala_jar.build_jar(source, tmp_path / "built.jar")
    assert [*tmp_path.iterdir()] == [source]
