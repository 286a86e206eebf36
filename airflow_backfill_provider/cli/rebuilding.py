"""Rebuilds a job, and after it the jobs downstream: those that read its view, directly or through other views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_backfill_provider.cli.jobs import created_job, open_job, requester, user
from airflow_backfill_provider.cli.runner import Runner
from airflow_backfill_provider.cli.succession import run_with_successor
from airflow_backfill_provider.cli.views import ProgressView
from airflow_backfill_provider.core.errors import InvalidJobError, NotFinishedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.job_file import read_yaml
from airflow_backfill_provider.core.job.job_order import downstream_of
from airflow_backfill_provider.jobs import creation, succession
from airflow_backfill_provider.jobs import table_locator as placement
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.former_rows import require_nothing_lost

if TYPE_CHECKING:
    from airflow_backfill_provider.engine.spark_engine import SparkEngine

_FIELDS_OF_A_JOB = {"name", "materialized_view", "query"}
_ITS_UPSTREAMS = {"upstream", "upstreams"}


def jobs_downstream(file: Path) -> list[Backfill]:
    """
    Return the created jobs downstream of a job, in the order in which they have to be rebuilt; none that is cancelled.

    :param file: the job's file; the files of the others lie beside it.
    :raises InvalidJobError: if a file beside it is that of a job, but not a valid one.
    """
    first, _ = created_job(file)
    beside = map(_valid_job, _job_files_beside(file))
    others = {backfill.job.name: backfill for backfill in beside if _is_in_use(backfill)}
    found = downstream_of(_as_placed(first), [_as_placed(backfill) for backfill in others.values()])
    return [others[job.name] for job in found]


def start_over(
    backfill: Backfill, engine: Callable[[], SparkEngine], *, keep_serving: bool, discard_history: bool
) -> Backfill:
    """Rebuild a job, or let its rebuild grow beside the view; return the job with the locations of its tables."""
    action = succession.grow_successor if keep_serving else creation.rebuild_job
    placed = placement.to_rebuild(backfill, engine)
    action(
        placed.job,
        store=placed.store,
        upstream=placed.upstream,
        engine=engine,
        requested_by=user(),
        discard_history=discard_history,
    )
    return placed


def rebuild_in_order(
    jobs: Sequence[Backfill],
    engine: Callable[[], SparkEngine],
    view: ProgressView,
    *,
    keep_serving: bool,
    discard_history: bool,
) -> None:
    """
    Rebuild each job and run it until its view is finished, one after another.

    :param jobs: the job that was named, and then those downstream.
    :param keep_serving: whether the views stay in service meanwhile; a view downstream that is not finished does not.
    :param discard_history: whether former rows that views keep may be lost.
    :raises InvalidJobError: if a view cannot stay in service; nothing is rebuilt then.
    :raises MaterializedViewError: if former rows would be lost; nothing is rebuilt then.
    :raises NotFinishedError: if a job stops before, for example because it is paused; those after it are as before.
    """
    for backfill in jobs:
        require_nothing_lost(backfill.settings(), backfill.store, discard_history=discard_history)
        if keep_serving:
            succession.require_possible(backfill.job)
    for number, backfill in enumerate(jobs):
        serving = keep_serving and (number == 0 or backfill.settings().finished_epoch is not None)
        job = start_over(backfill, engine, keep_serving=serving, discard_history=discard_history)
        view.say(f"{job.job.name}: rebuilt, job {number + 1} of {len(jobs)}")
        runner = Runner(backfill=job, engine=engine, requester=requester(), view=view)
        if serving:
            run_with_successor(runner, max_epochs=None)
        else:
            runner.run(max_epochs=None, until_finished=True)
        left = [later.job.name for later in jobs[number + 1 :]]
        if left and (job.settings().finished_epoch is None or job.successor is not None):
            raise NotFinishedError(
                f"job {job.job.name} is not finished, so the jobs downstream are not rebuilt: {', '.join(left)}; "
                f"finish it, and then rebuild {left[0]} with --downstream"
            )


def _job_files_beside(file: Path) -> Iterator[Path]:
    """Yield the other files in a folder that look like those of jobs."""
    for path in sorted({*file.parent.glob("*.yaml"), *file.parent.glob("*.yml")}):
        if path.samefile(file):
            continue
        try:
            content = read_yaml(path)
        except InvalidJobError:
            # Other programs' files lie there, too, such as templates.
            continue
        if not isinstance(content, dict) or content.keys().isdisjoint(_ITS_UPSTREAMS):
            continue
        if content.keys() >= _FIELDS_OF_A_JOB:
            yield path


def _valid_job(file: Path) -> Backfill:
    try:
        return open_job(file)
    except InvalidJobError as error:
        raise InvalidJobError(
            f"{file}: {error}; it is unknown whether this job is downstream: correct or move the file"
        ) from error


def _is_in_use(backfill: Backfill) -> bool:
    """Return whether a job is created and not cancelled; a rebuild would bring a cancelled one back."""
    return backfill.store.created() and not backfill.settings().cancelled


def _as_placed(backfill: Backfill) -> BackfillJob:
    """Return the definition with the locations of tables that are named in a catalog."""
    return backfill.job.placed_like(backfill.settings().definition)
