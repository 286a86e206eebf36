"""What a task run is to the epoch protocol: who asks, and up to which instant of the upstream."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import Context

from airflow_backfill_provider.core.requester import Requester

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


def interval_of_no_length(context: Context) -> str | None:
    """
    Return what a run means whose interval has no length, ``None`` for any other run.

    Airflow gives such intervals to cron expressions that are no :class:`CronDataIntervalTimetable`.
    """
    until = until_of(context)
    start = context.get("data_interval_start")
    if until is None or start is None or dt.datetime.fromisoformat(start.isoformat()) != until:
        return None
    return (
        f"the data interval of this run has no length, as Airflow's plain cron schedules have it; the epoch goes from "
        f"where the one before ended up to the upstream as of {until:%Y-%m-%d %H:%M:%S %Z}. Schedule with "
        "CronDataIntervalTimetable, as backfill_dag does, for runs that begin when their interval ends"
    )
