"""
Backfills of DAG runs that have committed no epoch yet.

If a DAG gets its job only at run time, it has no asset of the view before the first epoch's event. Until then, the job
is in the XCom of the task that creates it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.state import DagRunState
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from airflow_backfill_provider.assets import CONNECTION, DEFINITION, JOB_XCOM
from airflow_backfill_provider.plugin.registry import RegisteredJob, TaskRuns, jobs_of_dags, jobs_of_task_runs


def jobs_with_started(session: Session, dag_ids: Collection[str]) -> list[RegisteredJob]:
    """Return the backfills of some DAGs and of their unfinished DAG runs, by name."""
    known = jobs_of_dags(session, dag_ids)
    owned = {(job.name, dag_id) for job in known for dag_id in job.dag_ids}
    jobs = {job.key: job for job in known}
    for started in _created_jobs(session, DagRun.state.in_([DagRunState.RUNNING, DagRunState.QUEUED])):
        (dag_id,) = started.dag_ids
        if dag_id not in dag_ids or (started.name, dag_id) in owned:
            continue
        # Other DAGs may also have the job; the one that runs it now comes first.
        others = jobs[started.key].dag_ids if started.key in jobs else ()
        jobs[started.key] = replace(started, dag_ids=(dag_id, *others))
    return sorted(jobs.values(), key=lambda job: (job.name, job.dag_ids))


def jobs_of_task_runs_with_started(session: Session, dag_id: str, runs: TaskRuns) -> list[RegisteredJob]:
    """Return the backfills of a DAG run or of one of its tasks; before the first epoch, those that the run creates."""
    emitted = jobs_of_task_runs(session, dag_id, runs)
    return emitted or _created_jobs(session, DagRun.dag_id == dag_id, DagRun.run_id == runs.run_id)


def _created_jobs(session: Session, *runs: ColumnElement[bool]) -> list[RegisteredJob]:
    """Return the jobs in the XComs of some DAG runs; if a DAG run created a job twice, its last definition."""
    query = (
        select(XComModel.dag_id, XComModel.value)
        .join(DagRun, DagRun.id == XComModel.dag_run_id)
        .where(XComModel.key == JOB_XCOM, *runs)
        .order_by(XComModel.timestamp)
    )
    created: dict[tuple[str, str], Any] = {}
    for row in session.execute(query):
        value = XComModel.deserialize_value(row)
        if _is_job(value):
            created[row.dag_id, value[DEFINITION]["name"]] = value
    return [
        RegisteredJob(
            name=name,
            definition=value[DEFINITION],
            backfill_conn_id=str(value[CONNECTION]),
            dag_ids=(dag_id,),
        )
        for (dag_id, name), value in created.items()
    ]


def _is_job(value: Any) -> bool:
    """Return whether a value is the XCom of this package's task; other tasks may push any value under that key."""
    definition = value.get(DEFINITION) if isinstance(value, dict) else None
    return isinstance(definition, dict) and isinstance(definition.get("name"), str) and CONNECTION in value
