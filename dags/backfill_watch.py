"""
Wait for a backfill of another DAG, and report its status: a sensor of each kind, in different modes.

All sensors read the job's control tables in milliseconds and need no Spark. They wait for a job that is not created
yet, and fail if it is cancelled. ``AIRFLOW_BACKFILL_JOB`` is the path of the job's YAML file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, task

from airflow_backfill_provider.sensors.backfill import (
    BackfillProgressSensor,
    EpochCommittedSensor,
    MaterializedViewFinishedSensor,
)

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"
JOB = os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE)


@task
def report(path: str) -> dict[str, Any]:
    """Return the job's status; the task's XCom shows it."""
    from airflow_backfill_provider.hooks.backfill import BackfillHook
    from airflow_backfill_provider.hooks.errors import airflow_errors

    with airflow_errors():
        return BackfillHook().open(path).status().model_dump(mode="json")


with DAG("backfill_watch", schedule=None, tags=["backfill"], doc_md=__doc__) as dag:
    begun = EpochCommittedSensor(task_id="first_epoch", job=JOB, epoch=1, poke_interval=5)
    half = BackfillProgressSensor(task_id="half_way", job=JOB, at_least=0.5, mode="reschedule", poke_interval=30)
    finished = MaterializedViewFinishedSensor(task_id="view_finished", job=JOB, deferrable=True, poke_interval=30)

    begun >> half >> finished >> report(JOB)
