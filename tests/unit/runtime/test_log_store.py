"""Building the log store's jar: what is missing is named. The jar is used by the tests on S3."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.runtime import log_store
from airflow_backfill_provider.runtime.spark_settings import JARS_VARIABLE


def test_deltas_jars_must_be_there(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=f"{tmp_path} has no jar delta-storage"):
        log_store.build(tmp_path / "built.jar")
    assert not [*tmp_path.iterdir()]


def test_pyspark_must_have_its_jars(monkeypatch, tmp_path):
    monkeypatch.setattr(log_store, "pyspark_folder", lambda: None)
    with pytest.raises(SparkUnavailableError, match="no PySpark with jars"):
        log_store.build(tmp_path / "built.jar")


def test_the_jar_lies_beside_deltas(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert log_store.default_jar() == tmp_path / log_store.JAR
