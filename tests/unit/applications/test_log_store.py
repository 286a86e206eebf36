"""The log store's jar, which the tests on S3 use."""

from __future__ import annotations

from airflow_backfill_provider.applications import log_store
from airflow_backfill_provider.applications.spark_settings import JARS_VARIABLE


def test_the_jar_lies_beside_deltas(monkeypatch, tmp_path):
    monkeypatch.setenv(JARS_VARIABLE, str(tmp_path))
    assert log_store.default_jar() == tmp_path / log_store.JAR
