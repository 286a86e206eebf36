"""The file with all output of a Spark application, on the worker that started it."""

from __future__ import annotations

from pathlib import Path

from airflow.sdk import conf

FOLDER = "airflow_backfill"

_OWNER_ONLY = 0o600


def make_log(job: str, name: str, attempt: str) -> Path:
    """
    Create the file for the output of an attempt. Only its owner may read it, because Spark's output may quote rows.

    :param job: the job's name.
    :param name: the application's name.
    :param attempt: the attempt's id.
    """
    file = Path(conf.get("logging", "base_log_folder"), FOLDER, job, f"{name}-{attempt}.log")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(_OWNER_ONLY)
    return file
