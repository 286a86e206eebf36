"""The order of several jobs: a job runs after those whose views are its upstreams."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob


def reads_view_of(job: BackfillJob, writer: BackfillJob) -> bool:
    """Return whether an upstream of a job is the view of another job, by their definitions."""
    return bool(upstreams_on_view_of(job, writer))


def upstreams_on_view_of(job: BackfillJob, writer: BackfillJob) -> list[str]:
    """Return the names of the upstreams of a job that are the view of another job."""
    views = {writer.view_location, writer.view_name} - {""}
    return [
        name
        for name, upstream in job.all_upstreams.items()
        if not views.isdisjoint({upstream.location, upstream.catalog_table})
    ]


def in_order(jobs: Sequence[BackfillJob]) -> list[BackfillJob]:
    """
    Return jobs so that each one comes after the jobs whose views it reads.

    :raises InvalidJobError: if two jobs have the same name, or jobs read each other's views in a circle.
    """
    by_name = {job.name: job for job in jobs}
    if len(by_name) < len(jobs):
        twice = next(job.name for number, job in enumerate(jobs) if by_name[job.name] is not jobs[number])
        raise InvalidJobError(f"name: two of the jobs are called {twice}; give each its own name, or leave one out")
    before = {name: [writer.name for writer in jobs if reads_view_of(job, writer)] for name, job in by_name.items()}
    try:
        return [by_name[name] for name in TopologicalSorter(before).static_order()]
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise InvalidJobError(f"upstream: the jobs read each other's views in a circle: {circle}; cut it") from None


def downstream_of(job: BackfillJob, others: Sequence[BackfillJob]) -> list[BackfillJob]:
    """
    Return the jobs that read the view of a job, directly or through the views of others, in the order to run them.

    :param others: the jobs to look among; one with the job's own name is left out.
    :raises InvalidJobError: as :func:`in_order`.
    """
    found: list[BackfillJob] = [job]
    for other in in_order([job, *(other for other in others if other.name != job.name)]):
        if other is not job and any(reads_view_of(other, writer) for writer in found):
            found.append(other)
    return found[1:]
