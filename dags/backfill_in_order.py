"""
Two jobs in order, one view on another: the first view is the upstream of the second one.

The second job begins once the first view is finished, so that it reads whole rows of history instead of applying all
of them as changes. From then on each run takes both views as far as the upstream is. The first view has to record its
changes: its job says ``table_properties: {delta.enableChangeDataFeed: "true"}``.

Runs start when either job needs an epoch. Such a run goes up to the newest versions; a run of a schedule would go up to
the end of its interval, at which the first view did not yet have what the same run writes to it.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the first job's YAML file;
- ``AIRFLOW_BACKFILL_NEXT_JOB``: path of the second one's, whose ``upstream.path`` is the first one's view;
- ``AIRFLOW_BACKFILL_POLL_INTERVAL``: seconds between two looks at the upstreams, 30 unless set;
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
        # One look, which skips what comes after it; finishing the first view was skipped if an earlier run did it.
        timeout=0,
        soft_fail=True,
        deferrable=False,
        trigger_rule="none_failed",
    )
    second = BackfillTaskGroup("second", job=SECOND, spark_conn_id=SPARK_CONNECTION)

    first >> finished >> second
