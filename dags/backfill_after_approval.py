"""
One job that asks for approval before it begins. The question shows what it would read, and the cost.

The first DAG run waits in *Required Actions* until a user approves the plan; waiting takes no worker slot. After a
rejection the DAG run does nothing, and the next one asks again. Once the job is created, no DAG run asks any more.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file;
- ``AIRFLOW_BACKFILL_SCHEDULE``: a cron expression such as ``@hourly``; without it, trigger the DAG by hand;
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
