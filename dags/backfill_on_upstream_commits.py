"""
One job that follows its upstream: a run starts when an epoch is needed, and not by the clock.

A watcher in the triggerer looks at the upstream. It starts run after run until every row is read and the view is
finished, and from then on one for each new commit, so that the view is as fresh as an epoch is long. While the job is
paused only commits start runs. A triggerer has to run.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file;
- ``AIRFLOW_BACKFILL_POLL_INTERVAL``: seconds between two looks at the upstream, 30 unless set;
- ``AIRFLOW_BACKFILL_BARRIERS``: epochs per run, 1 unless set;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow_backfill_provider.assets import upstream_asset
from airflow_backfill_provider.dag_factory import backfill_dag

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"
JOB = os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE)

dag = backfill_dag(
    JOB,
    dag_id="backfill_on_upstream_commits",
    schedule=upstream_asset(JOB, poll_interval=float(os.environ.get("AIRFLOW_BACKFILL_POLL_INTERVAL") or 30)),
    barriers=int(os.environ.get("AIRFLOW_BACKFILL_BARRIERS") or 1),
    spark_conn_id=os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
    doc_md=__doc__,
)
