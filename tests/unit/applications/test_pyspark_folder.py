"""PySpark is found without importing it."""

from __future__ import annotations

import importlib.util

from airflow_backfill_provider.applications.pyspark_folder import pyspark_folder


def test_the_folder_is_a_complete_spark():
    assert (pyspark_folder() / "bin" / "spark-submit").is_file()


def test_a_python_without_pyspark_has_none(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert pyspark_folder() is None
