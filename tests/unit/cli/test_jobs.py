"""The job that a command opens by its file, and who asks."""

from __future__ import annotations

from airflow_backfill_provider.runtime.spark_settings import STORAGE_OPTIONS_VARIABLE


def fails(result, *texts: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("airflow-backfill: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr


def test_bad_storage_options(job, monkeypatch):
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, "[secret")
    result = job("plan")
    fails(result, STORAGE_OPTIONS_VARIABLE)
    assert "[secret" not in result.stderr
