"""A DAG for each job in a folder, and one without a backfill."""

import os
from pathlib import Path

import yaml
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_backfill_provider.dag_factory import backfill_dag

for file in sorted(Path(os.environ["PAGED_JOBS"]).glob("*.yaml")):
    job = yaml.safe_load(file.read_text(encoding="utf-8"))
    globals()[job["name"]] = backfill_dag(job, dag_id=f"refresh_{job['name']}", schedule=None)

with DAG("without_backfill", schedule=None):
    EmptyOperator(task_id="nothing")
