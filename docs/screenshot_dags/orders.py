"""
The DAGs of ``docs/screenshots.py``: one for each job in a folder, of which one asks for approval, and two that wait for
the view of that one. Instead of Spark applications, supervisors start programs that need no Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_backfill_provider.assets import finished_view_asset, materialized_view_asset
from airflow_backfill_provider.dag_factory import approved_backfill_dag, backfill_dag
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook

JOBS = Path(os.environ["AIRFLOW_BACKFILL_JOBS"])
ASKED = str(JOBS / "returns.yaml")

PROGRAM = """
import os, sys
for section in ("CORE", "DATABASE"):
    os.environ.pop(f"AIRFLOW__{section}__SQL_ALCHEMY_CONN", None)  # unreadable on purpose in a task's process
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.unit.stand_in import StandInSpark
job, application, *arguments = sys.argv[1:]
StandInSpark().run(Backfill(BackfillJob.from_yaml(job)), application, arguments)
"""


def command(_: SparkApplicationHook, application: str, arguments: Sequence[str]) -> list[str]:
    """Return the program's command line."""
    return [sys.executable, "-c", PROGRAM, ASKED, application, *arguments]


SparkApplicationHook.command = command  # type: ignore[assignment, method-assign]

for file in sorted(JOBS.glob("*.yaml")):
    job = yaml.safe_load(file.read_text(encoding="utf-8"))
    make = approved_backfill_dag if str(file) == ASKED else backfill_dag
    globals()[job["name"]] = make(job, dag_id=f"refresh_{job['name']}", barriers=3)

with DAG("returns_dashboard", schedule=[materialized_view_asset(ASKED)]):
    EmptyOperator(task_id="refresh")

with DAG("returns_report", schedule=[finished_view_asset(ASKED)]):
    EmptyOperator(task_id="write")
