"""
Compact a view's small files every night, if that is worth a Spark application.

The view's log decides, without Spark. A compaction changes no row: readers, the view's change feed and the job's own
DAG, which may run meanwhile, don't see it. The job's own DAG can compact after its epochs, too (``compact_at`` of
``backfill_dag``).

The environment says what to compact:

- ``AIRFLOW_BACKFILL_JOB``: path of the job's YAML file; the job must have been created;
- ``AIRFLOW_BACKFILL_COMPACT_AT``: how many files a compaction must save to be worth it, by default 50;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_backfill_provider.operators.compaction import CompactMaterializedViewOperator

EXAMPLE = Path(__file__).parent / "jobs" / "paid_orders.yaml"

with DAG(
    "backfill_compact",
    schedule="0 3 * * *",
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=10)},
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    CompactMaterializedViewOperator(
        task_id="compact_view",
        job=os.environ.get("AIRFLOW_BACKFILL_JOB") or str(EXAMPLE),
        compact_at=os.environ.get("AIRFLOW_BACKFILL_COMPACT_AT") or 50,
        spark_conn_id=os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None,
    )
