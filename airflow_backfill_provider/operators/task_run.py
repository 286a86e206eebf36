"""What a task run is to the epoch protocol: who asks, and up to which instant of the upstream."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import Context

from airflow_backfill_provider.core.barrier import Requester

RUN_TYPES_WITH_INTERVAL = frozenset({"scheduled", "backfill"})
"""Runs that stand for an interval of time. Any other run has its data interval made up, if it has one."""


def requester_of(context: Context) -> Requester:
    """
    Return the task run as a requester.

    The try is left out, so that a retry or a cleared task finds the barrier that was pinned before.
    """
    task_run = context["ti"]
    return Requester(
        dag_id=task_run.dag_id,
        run_id=task_run.run_id,
        task_id=task_run.task_id,
        map_index=-1 if task_run.map_index is None else task_run.map_index,
    )


def until_of(context: Context) -> dt.datetime | None:
    """Return the end of the interval that the run stands for, or ``None`` for the upstream as it is now."""
    if str(context["dag_run"].run_type.value) not in RUN_TYPES_WITH_INTERVAL:
        return None
    end = context.get("data_interval_end")
    return None if end is None else dt.datetime.fromisoformat(end.isoformat())
