"""The environment variables that pass a Spark connection to a submission to a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Connection

SUBMISSION_MODULE = "airflow_backfill_provider.hooks.spark_submission"
"""The module that reads these variables; run with ``python -m``."""

SUBMISSION_VARIABLE = "AIRFLOW_BACKFILL_SUBMISSION"

_OF_AIRFLOW = ("AIRFLOW_HOME", "AIRFLOW_CONFIG")


def submission_environment(connection: Connection, conf: Mapping[str, Any], name: str) -> dict[str, str]:
    """
    Return the environment variables that a submission reads; they may hold secrets.

    :param connection: the Spark connection.
    :param conf: Spark configuration.
    :param name: the application's name.
    """
    submission = {"spark_conn_id": connection.conn_id, "conf": dict(conf), "name": name}
    return {
        SUBMISSION_VARIABLE: json.dumps(submission),
        # The submission uses Airflow, so it needs its folder.
        **{name: os.environ[name] for name in _OF_AIRFLOW if name in os.environ},
        f"AIRFLOW_CONN_{connection.conn_id.upper()}": connection.as_json(),
        # Airflow gives a task's process a database address with which other processes cannot import Airflow.
        **{f"AIRFLOW__{section}__SQL_ALCHEMY_CONN": "sqlite://" for section in ("CORE", "DATABASE")},
    }
