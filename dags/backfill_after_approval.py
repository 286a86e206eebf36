"""
One job that asks before it begins: what it would read, in how many epochs, and what that costs under each strategy.

The first run waits in *Required Actions* until somebody approves the plan; waiting takes no worker slot. After a
rejection nothing of the run is done, and the next run asks again. Once the job is created no run asks any more.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file;
- ``AIRFLOW_BACKFILL_SCHEDULE``: a cron expression such as ``@hourly``; without it, runs are triggered by hand;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow_backfill_provider.dag_factory import approved_backfill_dag

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"

dag = approved_backfill_dag(
    os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE),
    dag_id="backfill_after_approval",
    schedule=os.environ.get("AIRFLOW_BACKFILL_SCHEDULE") or None,
    spark_conn_id=os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
    doc_md=__doc__,
)
