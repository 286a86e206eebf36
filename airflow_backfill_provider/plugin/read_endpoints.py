"""The endpoints that the pages read."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import APIRouter, Query, Request, Response, status

from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.cut_over import waiting_of
from airflow_backfill_provider.jobs.verification.view_differences import recorded_of
from airflow_backfill_provider.plugin.access import MAY_READ, DagId, Job, MayAct, Observer, ReadableDags
from airflow_backfill_provider.plugin.caching import unless_known
from airflow_backfill_provider.plugin.observed_job import JobHistory
from airflow_backfill_provider.plugin.observer import JobObserver, Observation
from airflow_backfill_provider.plugin.registry import RegisteredJob, TaskRuns
from airflow_backfill_provider.plugin.responses import (
    BarrierLog,
    Change,
    DagJobs,
    ExplainedRow,
    JobDetail,
    JobList,
    JobRow,
    JobState,
    Problem,
    ShownDifference,
    epoch_points,
    logged_epochs,
)
from airflow_backfill_provider.plugin.started_runs import jobs_of_task_runs_with_started, jobs_with_started

MOST_CHANGES = 50

_Text = Annotated[str | None, Query(pattern=r"^[^\x00]*$", max_length=250)]

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status.HTTP_304_NOT_MODIFIED: {"description": "Not changed since the client's last request"},
    status.HTTP_401_UNAUTHORIZED: {"model": Problem},
    status.HTTP_403_FORBIDDEN: {"model": Problem},
    status.HTTP_404_NOT_FOUND: {"model": Problem},
    status.HTTP_409_CONFLICT: {"model": Problem},
    status.HTTP_422_UNPROCESSABLE_CONTENT: {"model": Problem},
    status.HTTP_503_SERVICE_UNAVAILABLE: {"model": Problem},
}


router = APIRouter(prefix="/api", responses=_REFUSALS)


@router.get("/jobs", response_model=JobList)
def list_jobs(
    request: Request,
    dags: ReadableDags,
    observer: Observer,
    session: SessionDep,
    search: _Text = None,
    state: Annotated[JobState | None, Query()] = None,
    warnings: Annotated[bool, Query()] = False,  # noqa: FBT002 - a box to tick
    limit: Annotated[int, Query(ge=1, le=100)] = 25,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Response:
    """List the jobs of the DAGs that the user may read, by name."""
    jobs = [job for job in jobs_with_started(session, dags) if (search or "").lower() in job.name]
    page = slice(offset, offset + limit)
    if state is None and not warnings:
        total, unread = len(jobs), 0
        jobs = jobs[page]
        rows = _rows(observer, jobs)
    else:
        every = _rows(observer, jobs)
        matching = [row for row in every if state in {None, row[0].state} and (row[0].warns or not warnings)]
        total, unread = len(matching), sum(row.state is JobState.UNREAD for row, _ in every)
        rows = matching[page]
    version = [total, unread, [[row.name, row.dag_ids, row.problem, token] for row, token in rows]]
    return unless_known(
        request, version, lambda: JobList(jobs=tuple(row for row, _ in rows), total=total, unread=unread)
    )


@router.get("/dags/{dag_id}/jobs", response_model=DagJobs, dependencies=MAY_READ)
def list_jobs_of_dag(
    request: Request,
    dag_id: DagId,
    observer: Observer,
    session: SessionDep,
    run_id: _Text = None,
    task_id: _Text = None,
    map_index: Annotated[int | None, Query(ge=-1, le=1_000_000)] = None,
) -> Response:
    """List the jobs of a DAG, or of a DAG run or task run if they are known."""
    narrowed: list[RegisteredJob] = []
    if run_id:
        narrowed = jobs_of_task_runs_with_started(
            session, dag_id, TaskRuns(run_id=run_id, task_id=task_id or None, map_index=map_index)
        )
    rows = _rows(observer, narrowed or jobs_with_started(session, [dag_id]))
    version = [bool(narrowed), [[row.name, row.problem, token] for row, token in rows]]
    return unless_known(request, version, lambda: DagJobs(jobs=tuple(row for row, _ in rows), narrowed=bool(narrowed)))


@router.get("/dags/{dag_id}/jobs/{name}", response_model=JobDetail, dependencies=MAY_READ)
def get_job(request: Request, job: Job, observer: Observer, may_act: MayAct) -> Response:
    """Describe one job."""
    observation = observer.observe_one(job)
    token = observation.reading.token if observation.reading else ""
    version = [token, observation.problem, may_act, job.key, job.dag_ids]
    return unless_known(request, version, lambda: _detail(observer, job, observation, may_act=may_act))


@router.get("/dags/{dag_id}/jobs/{name}/log", response_model=BarrierLog, dependencies=MAY_READ)
def get_barrier_log(
    request: Request,
    job: Job,
    observer: Observer,
    before_epoch: Annotated[int | None, Query(ge=1, le=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """Return a page of a job's barrier log, newest first."""
    observed = observer.job(job)
    reading = observed.look()
    return unless_known(
        request, [reading.token, before_epoch, limit], lambda: _log_page(observed.backfill, before_epoch, limit)
    )


@router.get("/dags/{dag_id}/jobs/{name}/why", response_model=ExplainedRow, dependencies=MAY_READ)
def explain_row(
    job: Job, observer: Observer, key: Annotated[str, Query(pattern=r"^[^\x00]*$", min_length=1, max_length=2000)]
) -> ExplainedRow:
    """Answer why the view has a row, or has not, as far as that takes no Spark."""
    return ExplainedRow.of(observer.job(job).backfill, key)


@router.get("/dags/{dag_id}/jobs/{name}/difference", response_model=ShownDifference, dependencies=MAY_READ)
def get_difference(request: Request, job: Job, observer: Observer) -> Response:
    """Return the newest recorded difference of what waits for an approval."""
    backfill = observer.job(job).backfill
    found = recorded_of(waiting_of(backfill.store, backfill.settings()), backfill.store)
    return unless_known(request, [None if found is None else found.number], lambda: ShownDifference.of(found))


def _rows(observer: JobObserver, jobs: list[RegisteredJob]) -> list[tuple[JobRow, str | None]]:
    """Return each job's row, and the token of its reading."""
    return [
        (JobRow.of(job, seen), seen.reading.token if seen.reading else None)
        for job, seen in zip(jobs, observer.observe(jobs), strict=True)
    ]


def _detail(observer: JobObserver, job: RegisteredJob, observation: Observation, *, may_act: bool) -> JobDetail:
    observed, reading = observer.job(job), observation.reading
    history = observed.history() if reading else JobHistory(barriers=(), commits=(), changes=())
    return JobDetail(
        **dict(JobRow.of(job, observation)),
        may_act=may_act,
        definition=job.definition,
        state_location=observed.backfill.job.state if reading else None,
        cells=reading.cells if reading else (),
        splits=reading.splits if reading else (),
        shared_position=reading is not None and reading.shared_position,
        epochs=epoch_points(history.barriers, history.commits),
        changes=tuple(Change.of(record) for record in history.changes[: -MOST_CHANGES - 1 : -1]),
    )


def _log_page(backfill: Backfill, before_epoch: int | None, limit: int) -> BarrierLog:
    before = min(before_epoch or 2**31, backfill.store.last_epoch() + 1)
    since = max(before - limit, 1)
    epochs = logged_epochs(*backfill.store.log(since_epoch=since, before_epoch=before))
    return BarrierLog(epochs=epochs, older=since if since > 1 else None)
