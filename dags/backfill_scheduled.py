"""
One job, one epoch per interval. A backfill needs no other DAG. Further jobs may read its view, and run after it.

Each DAG run injects one barrier, runs its epoch on Spark and, once every vnode is Completed, marks the view finished.
Later DAG runs keep the view fresh. Catch-up and Airflow's own backfills go through the upstream's history in order; a
DAG run starts no Spark if its interval is covered already. A manual DAG run reads up to the upstream's newest version.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file;
- ``AIRFLOW_BACKFILL_MORE_JOBS``: paths of the YAML files of further jobs, separated as in ``PATH``;
- ``AIRFLOW_BACKFILL_SCHEDULE``: a cron expression such as ``@hourly``; without it, trigger the DAG by hand;
- ``AIRFLOW_BACKFILL_BARRIERS``: epochs per DAG run, by default 1;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow_backfill_provider.dag_factory import backfill_dag

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"

MORE = [file for file in os.environ.get("AIRFLOW_BACKFILL_MORE_JOBS", "").split(os.pathsep) if file]

dag = backfill_dag(
    [os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE), *MORE],
    dag_id="backfill_scheduled",
    schedule=os.environ.get("AIRFLOW_BACKFILL_SCHEDULE") or None,
    barriers=int(os.environ.get("AIRFLOW_BACKFILL_BARRIERS") or 1),
    spark_conn_id=os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
)
