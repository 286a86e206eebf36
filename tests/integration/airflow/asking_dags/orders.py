"""
A job that follows its upstream, two that ask before they begin, and one that asks before its view goes live.

Spark is a stand-in.
"""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

from airflow.sdk import DAG

from airflow_backfill_provider.assets import upstream_asset
from airflow_backfill_provider.dag_factory import approved_backfill_dag, backfill_dag
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.cut_over import ApproveCutOverOperator
from airflow_backfill_provider.task_group import BackfillTaskGroup
from tests.unit.stand_in import StandInSpark

LAKE = os.environ["ORDERS_LAKE"]


def run_application(_: SparkBackfillOperator, backfill: Backfill, name: str, *call: Any, **more: Any) -> None:
    """Do the work of an application in the task's own process."""
    del name, more
    StandInSpark().run(backfill, *call)


SparkBackfillOperator.run_application = run_application  # type: ignore[assignment, method-assign]


def job(name: str, **fields: Any) -> dict[str, Any]:
    """Return a job over the orders."""
    return {
        "name": name,
        "upstream": {"path": f"{LAKE}/orders", "key": ["order_id"]},
        "materialized_view": f"{LAKE}/{name}",
        "query": "SELECT order_id FROM upstream",
        "vnode_count": 4,
        "rate_limit": 400,
        **fields,
    }


backfill_dag(
    job("followed"),
    schedule=upstream_asset(job("followed"), poll_interval=1),
    is_paused_upon_creation=False,
)
# Airflow retries a question that is answered before its scheduler saw that it was asked; tests answer at once.
AGAIN: dict[str, Any] = {"retries": 10, "retry_delay": dt.timedelta(seconds=1)}
for definition in (job("approved"), job("rejected", strategy="arrangement", parallelism=2)):
    question = approved_backfill_dag(definition, is_paused_upon_creation=False).get_task("approve")
    for name, value in AGAIN.items():
        setattr(question, name, value)

with DAG("gated", schedule=None, max_active_runs=1, is_paused_upon_creation=False):
    gated = job("gated", cut_over="on_approval", rate_limit=None)
    BackfillTaskGroup(job=gated) >> ApproveCutOverOperator(
        task_id="approve", job=gated, trigger_rule="none_failed", **AGAIN
    )
