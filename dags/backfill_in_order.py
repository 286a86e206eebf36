"""
Two jobs in order, one view on another: the first view is the upstream of the second one.

The second job begins once the first view is finished, so that it reads history as rows and not as changes. From then on
each DAG run takes both views up to the newest version of the upstream.

``backfill_dag([FIRST, SECOND])`` makes such a DAG in one line, without the sensor. This one is made by hand.

A DAG run starts when either job needs an epoch, and reads up to the newest versions.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the first job's YAML file;
- ``AIRFLOW_BACKFILL_NEXT_JOB``: path of the second job's YAML file; its ``upstream.path`` is the first job's view;
- ``AIRFLOW_BACKFILL_POLL_INTERVAL``: seconds between two polls of the upstreams, by default 30;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_backfill_provider.assets import upstream_asset
from airflow_backfill_provider.dag_factory import DEFAULT_ARGUMENTS
from airflow_backfill_provider.sensors.backfill import MaterializedViewFinishedSensor
from airflow_backfill_provider.task_group import BackfillTaskGroup

EXAMPLES = Path(__file__).parent / "jobs"
FIRST = os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLES / "paid_orders.yaml")
SECOND = os.environ.get("AIRFLOW_BACKFILL_NEXT_JOB") or str(EXAMPLES / "large_orders.yaml")
POLL_INTERVAL = float(os.environ.get("AIRFLOW_BACKFILL_POLL_INTERVAL") or 30)
SPARK_CONNECTION = os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None

with DAG(
    "backfill_in_order",
    schedule=upstream_asset(FIRST, poll_interval=POLL_INTERVAL) | upstream_asset(SECOND, poll_interval=POLL_INTERVAL),
    max_active_runs=1,
    default_args=DEFAULT_ARGUMENTS,
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    first = BackfillTaskGroup("first", job=FIRST, spark_conn_id=SPARK_CONNECTION)
    finished = MaterializedViewFinishedSensor(
        task_id="first_view_is_finished",
        job=FIRST,
        # Check once, and skip the tasks after it. The finish of the first view is skipped if an earlier DAG run did it.
        timeout=0,
        soft_fail=True,
        deferrable=False,
        trigger_rule="none_failed",
    )
    second = BackfillTaskGroup("second", job=SECOND, spark_conn_id=SPARK_CONNECTION)

    first >> finished >> second
