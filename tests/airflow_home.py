"""Gives the tests a separate Airflow home; must be imported before Airflow, which reads it at once."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

AIRFLOW_HOME = Path(tempfile.mkdtemp(prefix="airflow-backfill-tests-"))
DAGS = Path(__file__).parents[1] / "dags"

os.environ.update(
    AIRFLOW_HOME=str(AIRFLOW_HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(DAGS),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    # Tests give one DAG one job after another; for half a minute Airflow would keep the DAG of the job before.
    AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL="0",
    AIRFLOW__LOGGING__BASE_LOG_FOLDER=str(AIRFLOW_HOME / "logs"),
)
atexit.register(shutil.rmtree, AIRFLOW_HOME, ignore_errors=True)
