"""A task run in the epoch protocol: the requester, and the time up to which an epoch reads the upstream."""

from __future__ import annotations

import datetime as dt

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_backfill_provider.core.job.requester import Requester, possible_task_runs

RUN_TYPES_WITH_INTERVAL = frozenset({"scheduled", "backfill"})
"""DAG runs with a real data interval. Airflow invents the interval of other ones, or gives them none."""


_FAILED = frozenset({"failed", "upstream_failed", "skipped", "removed"})
_RUN_TYPES_BY_HAND = frozenset({"manual", "asset_materialization"})


def requester_of(context: Context) -> Requester:
    """
    Return the task run as a requester.

    It does not include the try number, so that a retry or a cleared task finds the barrier that it pinned before.
    """
    task_run = context["ti"]
    return Requester(
        dag_id=task_run.dag_id,
        run_id=task_run.run_id,
        task_id=task_run.task_id,
        map_index=-1 if task_run.map_index is None else task_run.map_index,
    )


def has_failed(context: Context, requested_by: str) -> bool:
    """
    Return whether a task run failed for good, as Airflow knows; ``False`` if Airflow does not know it (any more).

    :param requested_by: the task run, as text in a record.
    """
    return any(_state_of(context, task_run) in _FAILED for task_run in possible_task_runs(requested_by))


def _state_of(context: Context, task_run: Requester) -> str | None:
    ask = getattr(context["ti"], "get_task_states", None)
    if ask is None:
        return None
    try:
        states = ask(dag_id=str(task_run.dag_id), task_ids=[str(task_run.task_id)], run_ids=[str(task_run.run_id)])
    except AirflowRuntimeError:  # there is no such DAG
        return None
    state = (states.get(str(task_run.run_id)) or {}).get(str(task_run.task_id))
    return None if state is None else str(getattr(state, "value", state))


def until_of(context: Context) -> dt.datetime | None:
    """Return the end of the DAG run's data interval, or ``None`` to read the upstream up to its newest version."""
    if str(context["dag_run"].run_type.value) not in RUN_TYPES_WITH_INTERVAL:
        return None
    end = context.get("data_interval_end")
    return None if end is None else dt.datetime.fromisoformat(end.isoformat())


def is_manual(context: Context) -> bool:
    """Return whether somebody started the DAG run, and not a schedule, an asset's event or an Airflow backfill."""
    return str(context["dag_run"].run_type.value) in _RUN_TYPES_BY_HAND


def empty_interval_warning(context: Context) -> str | None:
    """
    Return a warning if the DAG run's data interval has length zero.

    Airflow gives such intervals to plain cron expressions, without :class:`CronDataIntervalTimetable`.
    """
    until = until_of(context)
    start = context.get("data_interval_start")
    if until is None or start is None or dt.datetime.fromisoformat(start.isoformat()) != until:
        return None
    return (
        "the data interval of this DAG run has length zero, as with Airflow's plain cron schedules; the epoch reads "
        f"the upstream from the last epoch up to {until:%Y-%m-%d %H:%M:%S %Z}. Schedule with "
        "CronDataIntervalTimetable, as backfill_dag does, for DAG runs that begin when their interval ends"
    )
