"""
Create or rebuild a job: ``spark-submit backfill_job.py create|rebuild --job JSON --requested-by WHO``.

This needs Spark, because only Spark can check the job's query. The exit codes are those of ``backfill_epoch.py``.
"""

from __future__ import annotations

import argparse
import json
import sys

from airflow_backfill_provider.runtime.spark_application import create, rebuild, run_application

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Create or rebuild a backfill job.")
    parser.add_argument("action", choices=["create", "rebuild"])
    parser.add_argument("--job", required=True, type=json.loads, help="the job's definition as JSON")
    parser.add_argument("--requested-by", required=True, help="who asks for it")
    arguments = parser.parse_args()
    action = {"create": create, "rebuild": rebuild}[arguments.action]
    sys.exit(run_application(action, definition=arguments.job, requested_by=arguments.requested_by))
