"""
Check all jobs every ten minutes: which have stalled, and which upstreams will soon delete unread changes.

The task reads a few small files per job and needs no Spark. It fails while there is an alarm, and its log says which
one and what to do. The environment says which jobs to check and where to send alarms:

- ``AIRFLOW_BACKFILL_JOBS``: a folder with the jobs' YAML files;
- ``AIRFLOW_BACKFILL_JOB``: path of one more YAML file;
- ``AIRFLOW_BACKFILL_WEBHOOK``: a connection of type ``http``; it gets each alarm once.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_backfill_provider.notifications.webhook import WebhookNotifier
from airflow_backfill_provider.operators.watchdog import BackfillWatchdogOperator

EXAMPLES = Path(__file__).parent / "jobs"
FOLDER = Path(os.environ.get("AIRFLOW_BACKFILL_JOBS") or EXAMPLES)
ONE = os.environ.get("AIRFLOW_BACKFILL_JOB")
WEBHOOK = os.environ.get("AIRFLOW_BACKFILL_WEBHOOK")

files = [*([ONE] if ONE else []), *(str(file) for file in sorted(FOLDER.glob("*.yaml")))]

with DAG(
    "backfill_watchdog",
    schedule="*/10 * * * *",
    catchup=False,
    max_active_runs=1,
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    BackfillWatchdogOperator(
        task_id="look_after_jobs",
        jobs=list(dict.fromkeys(files)),
        send=[WebhookNotifier(http_conn_id=WEBHOOK, body={"text": "{{ backfill.text }}"})] if WEBHOOK else [],
    )
