"""Two jobs on an hourly schedule, with a stand-in for Spark: one catches up by itself, one is backfilled by Airflow."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

from airflow_backfill_provider.dag_factory import backfill_dag
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from tests.unit.stand_in import StandInSpark

LAKE = os.environ["ORDERS_LAKE"]


def run_application(_: SparkBackfillOperator, backfill: Backfill, name: str, *call: Any, **more: Any) -> None:
    """Do the work of an application in the task's own process."""
    del name, more
    StandInSpark().run(backfill, *call)


SparkBackfillOperator.run_application = run_application  # type: ignore[assignment, method-assign]

STARTS = {
    "caught_up": dt.datetime.fromisoformat(os.environ["ORDERS_START"]),
    # No run of the schedule itself: only Airflow's backfill makes runs.
    "backfilled": dt.datetime(2100, 1, 1, tzinfo=dt.UTC),
}

for name, start in STARTS.items():
    backfill_dag(
        {
            "name": name,
            "upstream": {"path": f"{LAKE}/orders", "key": ["order_id"]},
            "materialized_view": f"{LAKE}/{name}",
            "query": "SELECT order_id FROM upstream",
            "vnode_count": 4,
            "rate_limit": 100,
        },
        schedule="@hourly",
        start_date=start,
        catchup=True,
        is_paused_upon_creation=False,
    )
