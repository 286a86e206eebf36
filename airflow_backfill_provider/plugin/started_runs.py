"""
Backfills of DAG runs that have committed no epoch yet.

If a DAG gets its job only at run time, it has no asset of the view before the first epoch's event. Until then, the job
is in the XCom of the task that creates it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.state import DagRunState
from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from airflow_backfill_provider.assets import JOB_XCOM
from airflow_backfill_provider.plugin.registry import RegisteredJob, TaskRuns, jobs_of_dags, jobs_of_task_runs
from airflow_backfill_provider.plugin.written_jobs import WrittenJob, in_batches, text_of, written_job


def jobs_with_started(session: Session, dag_ids: Collection[str]) -> list[RegisteredJob]:
    """Return the backfills of some DAGs and of their unfinished DAG runs, by name."""
    known = jobs_of_dags(session, dag_ids)
    owned = {(job.name, dag_id) for job in known for dag_id in job.dag_ids}
    jobs = {job.key: job for job in known}
    unfinished = DagRun.state.in_([DagRunState.RUNNING, DagRunState.QUEUED])
    for ids in in_batches(dag_ids):
        for started in _created_jobs(session, XComModel.dag_id.in_(ids), unfinished):
            (dag_id,) = started.dag_ids
            if (started.name, dag_id) in owned:
                continue
            # Other DAGs may also have the job; the one that runs it now comes first.
            others = jobs[started.key].dag_ids if started.key in jobs else ()
            jobs[started.key] = replace(started, dag_ids=(dag_id, *others))
    return sorted(jobs.values(), key=lambda job: (job.name, job.dag_ids))


def jobs_of_task_runs_with_started(session: Session, dag_id: str, runs: TaskRuns) -> list[RegisteredJob]:
    """Return the backfills of a DAG run or of one of its tasks; before the first epoch, those that the run creates."""
    emitted = jobs_of_task_runs(session, dag_id, runs)
    return emitted or _created_jobs(session, XComModel.dag_id == dag_id, DagRun.run_id == runs.run_id)


def _created_jobs(session: Session, *runs: ColumnElement[bool]) -> list[RegisteredJob]:
    """Return the jobs in the XComs of some DAG runs; if a DAG run created a job twice, its last definition."""
    query = (
        select(XComModel.dag_id, text_of(XComModel.value))
        .join(DagRun, DagRun.id == XComModel.dag_run_id)
        .where(XComModel.key == JOB_XCOM, *runs)
        .order_by(XComModel.timestamp)
    )
    created: dict[tuple[str, str], WrittenJob] = {}
    for dag_id, text in session.execute(query):
        written = written_job(text)
        # Other tasks may push any value under that key.
        if written is not None and written.backfill_conn_id:
            created[dag_id, written.name] = written
    return [
        RegisteredJob(
            name=name,
            definition=written.definition,
            backfill_conn_id=written.backfill_conn_id,
            dag_ids=(dag_id,),
        )
        for (dag_id, name), written in created.items()
    ]
