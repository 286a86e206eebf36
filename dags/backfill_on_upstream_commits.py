"""
One job that follows its upstream: a DAG run starts when the job needs an epoch, and not by the clock.

A watcher in the triggerer polls the upstream. It starts one DAG run after another until every row is read and the view
is finished. From then on it starts one for each new commit, so that the view lags by about one epoch. While the job is
paused, only commits start DAG runs. This needs a triggerer.

The environment says what to run:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file;
- ``AIRFLOW_BACKFILL_POLL_INTERVAL``: seconds between two polls of the upstream, by default 30;
- ``AIRFLOW_BACKFILL_BARRIERS``: epochs per DAG run, by default 1;
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
