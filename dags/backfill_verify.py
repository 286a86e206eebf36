"""
Verify a view every Sunday, and repair what differs.

The verification compares all rows and columns, while epochs of the job's own DAG may run. If the view differs, the next
epoch repairs exactly the keys that differ, and the view is verified again. If it still differs, the DAG run fails. A
DAG that needs a view which is known to be right can wait with ``MaterializedViewVerifiedSensor``, or be scheduled on
``verified_view_asset``.

The environment says what to verify:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file; the job must have been created, and an epoch committed;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from airflow_backfill_provider.assets import VERIFIED_VIEWS
from airflow_backfill_provider.operators.verification import (
    RepairWhatDiffersOperator,
    VerifyMaterializedViewOperator,
)

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"

about: dict[str, Any] = {
    "job": os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE),
    "spark_conn_id": os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
}

with DAG(
    "backfill_verify",
    schedule="0 4 * * 0",
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=10)},
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    verify = VerifyMaterializedViewOperator(task_id="verify_view", on_difference="succeed", **about)
    repair = RepairWhatDiffersOperator(task_id="repair_what_differs", outlets=[VERIFIED_VIEWS], **about)
    verify >> repair
