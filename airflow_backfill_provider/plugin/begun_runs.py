"""
Backfills of runs that have committed no epoch yet.

A DAG that learns only at run time which job it is about has no asset of its view before the first epoch's event. Until
then the task that creates the job has said which one it is.
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


def jobs_with_begun(session: Session, dag_ids: Collection[str]) -> list[RegisteredJob]:
    """Return the backfills of some DAGs, and of those of their runs that are under way, by name."""
    known = jobs_of_dags(session, dag_ids)
    owned = {(job.name, dag_id) for job in known for dag_id in job.dag_ids}
    jobs = {job.key: job for job in known}
    for begun in _said(session, DagRun.state.in_([DagRunState.RUNNING, DagRunState.QUEUED])):
        (dag_id,) = begun.dag_ids
        if dag_id not in dag_ids or (begun.name, dag_id) in owned:
            continue
        # Of a job that other DAGs know, it is the one that runs it now.
        others = jobs[begun.key].dag_ids if begun.key in jobs else ()
        jobs[begun.key] = replace(begun, dag_ids=(dag_id, *others))
    return sorted(jobs.values(), key=lambda job: (job.name, job.dag_ids))


def jobs_of_task_runs_with_begun(session: Session, dag_id: str, runs: TaskRuns) -> list[RegisteredJob]:
    """Return the backfills of a DAG run, or of a task of it; before its first epoch, the one that it creates."""
    emitted = jobs_of_task_runs(session, dag_id, runs)
    return emitted or _said(session, DagRun.dag_id == dag_id, DagRun.run_id == runs.run_id)


def _said(session: Session, *runs: ColumnElement[bool]) -> list[RegisteredJob]:
    """Return what tasks of some runs said of their job; of one that a run created twice, the last."""
    query = (
        select(XComModel.dag_id, XComModel.value)
        .join(DagRun, DagRun.id == XComModel.dag_run_id)
        .where(XComModel.key == JOB_XCOM, *runs)
        .order_by(XComModel.timestamp)
    )
    said: dict[tuple[str, str], Any] = {}
    for row in session.execute(query):
        value = XComModel.deserialize_value(row)
        if _is_job(value):
            said[row.dag_id, value[DEFINITION]["name"]] = value
    return [
        RegisteredJob(
            name=name,
            definition=value[DEFINITION],
            backfill_conn_id=str(value[CONNECTION]),
            dag_ids=(dag_id,),
        )
        for (dag_id, name), value in said.items()
    ]


def _is_job(value: Any) -> bool:
    """Tell whether a value is what this package's task said; anybody may push an XCom."""
    definition = value.get(DEFINITION) if isinstance(value, dict) else None
    return isinstance(definition, dict) and isinstance(definition.get("name"), str) and CONNECTION in value
