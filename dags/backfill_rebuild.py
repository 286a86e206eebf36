"""
Rebuild a view by hand, undo a rebuild, or change a view's query: choose what to do in the trigger form.

Change the definition in the job's file first. With **change**, the next epoch of the job's own DAG (``backfill_dag``)
brings a finished view to the new query, without another backfill; what only a rebuild can change is refused. With
**keep serving**, the view stays and is kept fresh until the rebuild is finished and takes its place; the job's own DAG
runs both. Otherwise the view is empty at once. **Revert** gives up a rebuild that still grows or a change that waits,
or puts the former view back.

With ``cut_over: on_approval`` in the job's file, a rebuild that is ready and a change wait. **Approve** shows how they
differ from the view that serves, under *Required Actions*, and lets them go live once somebody has approved.

The environment says which job:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file; the job must have been created;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, task

from airflow_backfill_provider.operators.cut_over import ApproveCutOverOperator
from airflow_backfill_provider.operators.job import (
    ChangeBackfillOperator,
    RebuildBackfillOperator,
    RevertBackfillOperator,
)

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"

about: dict[str, Any] = {
    "job": os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE),
    "spark_conn_id": os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
}

action = Param(
    "keep_serving",
    title="What to do",
    type="string",
    enum=["keep_serving", "rebuild", "revert", "change", "approve"],
    values_display={
        "keep_serving": "Rebuild, and keep the view in service meanwhile",
        "rebuild": "Rebuild, and empty the view at once",
        "revert": "Undo the newest rebuild",
        "change": "Change the query without another backfill",
        "approve": "Look at what waits for an approval, and approve it",
    },
)


@task.branch
def choose(params: dict[str, Any] | None = None) -> str:
    """Return the task of the chosen action."""
    return str((params or {})["action"])


with DAG(
    "backfill_rebuild",
    schedule=None,
    max_active_runs=1,
    params={"action": action},
    # A second try would start over what the first one began.
    default_args={"retries": 0},
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    choose() >> [
        RebuildBackfillOperator(task_id="keep_serving", keep_serving=True, **about),
        RebuildBackfillOperator(task_id="rebuild", **about),
        RevertBackfillOperator(task_id="revert", **about),
        ChangeBackfillOperator(task_id="change", **about),
        ApproveCutOverOperator(task_id="approve", **about),
    ]
