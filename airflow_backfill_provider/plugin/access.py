"""Access control of the API, by Airflow's users and their rights on the DAG of a job."""

from __future__ import annotations

from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path, Request, status

from airflow_backfill_provider.plugin.observer import JobObserver
from airflow_backfill_provider.plugin.registry import RegisteredJob, job_of_dag
from airflow_backfill_provider.plugin.started_runs import jobs_with_started

# In ASCII, this allows what Airflow allows: letters, digits, dots, hyphens and underscores. Beyond ASCII it allows all
# characters, because regular expression engines disagree about \w there; a name that no DAG can have is not found.
DagId = Annotated[str, Path(pattern=r"^[^\x00-,/:-@\[-\^`{-\x7f]+$", max_length=250)]
JobName = Annotated[str, Path(pattern=r"^[a-z0-9_]+$", max_length=250)]


def require_json(request: Request) -> None:
    """
    Refuse a body that a form on another site could send with the user's cookie.

    Before a page of another site may send JSON, the browser asks the server, and Airflow refuses.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise HTTPException(status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")


MAY_READ = [Depends(requires_access_dag("GET"))]
MAY_ACT = [Depends(requires_access_dag("POST", DagAccessEntity.RUN)), Depends(require_json)]


def readable_dags(user: GetUserDep) -> frozenset[str]:
    """Return the DAGs that the user may read."""
    return frozenset(get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))


def may_act(dag_id: DagId, user: GetUserDep) -> bool:
    """Return whether the user may run the DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )


def job_of_path(dag_id: DagId, name: JobName, session: SessionDep) -> RegisteredJob:
    """Return the job of the path."""
    job = job_of_dag(session, dag_id, name)
    if job is None:
        job = next((started for started in jobs_with_started(session, [dag_id]) if started.name == name), None)
    if job is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"DAG {dag_id} has no backfill {name}")
    return job


def observer_of_app(request: Request) -> JobObserver:
    """Return the observer of the jobs; the API has one."""
    observer: JobObserver = request.app.state.observer
    return observer


ReadableDags = Annotated[frozenset[str], Depends(readable_dags)]
MayAct = Annotated[bool, Depends(may_act)]
Job = Annotated[RegisteredJob, Depends(job_of_path)]
Observer = Annotated[JobObserver, Depends(observer_of_app)]
