"""
Create a job, rebuild or change it: ``spark-submit backfill_job.py ACTION --job JSON --requested-by WHO``.

The actions are ``create``, ``rebuild``, ``rebuild-keep-serving``, ``revert``, ``change`` and ``diff``.

This needs Spark, because only Spark can check the job's query. The exit codes are those of ``backfill_epoch.py``.
"""

from __future__ import annotations

import argparse
import json
from functools import partial

from airflow_backfill_provider.applications.process_end import end_process_with
from airflow_backfill_provider.applications.spark_application import (
    change,
    create,
    diff,
    rebuild,
    rebuild_keep_serving,
    revert,
    run_application,
)

ACTIONS = {
    "create": create,
    "rebuild": rebuild,
    "rebuild-keep-serving": rebuild_keep_serving,
    "revert": revert,
    "change": change,
    "diff": diff,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Create a backfill job, rebuild it, change its query, or compare what waits for an approval."
    )
    parser.add_argument("action", choices=list(ACTIONS))
    parser.add_argument("--job", required=True, type=json.loads, help="the job's definition as JSON")
    parser.add_argument("--requested-by", required=True, help="who asks for it")
    arguments = parser.parse_args()
    end_process_with(
        partial(
            run_application, ACTIONS[arguments.action], definition=arguments.job, requested_by=arguments.requested_by
        )
    )
