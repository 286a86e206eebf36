"""Which jobs can keep former rows: refuses those of which it is known that they cannot, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.beginning import BegunView
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.refresh import Refresh

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
    from airflow_backfill_provider.core.kinds import JobShape


def require_keepable(
    job: BegunView, shape: JobShape, upstream: UpstreamDefinition, refresh: Refresh, *, several: bool
) -> None:
    """
    Refuse a job whose view cannot keep former rows, as far as its definition shows it.

    :param shape: the shape of the job's query.
    :param upstream: the upstream, or the one that leads.
    :param refresh: what an epoch computes.
    :param several: whether the job has several upstreams.
    :raises InvalidJobError: with the reason.
    """
    if not job.keep.keeps_former_rows:
        return
    problems = (
        _of_rows(job, upstream) if shape.former_rows_by_version else _of_units(job, shape, refresh, several=several)
    )
    if refused := next(chain(_of_any(job, shape, upstream), problems), None):
        why, instead = refused
        raise InvalidJobError(f"keep: {job.keep} is not possible: {why}; {instead}")


def _of_any(job: BegunView, shape: JobShape, upstream: UpstreamDefinition) -> Iterator[tuple[str, str]]:
    """Yield what no view can keep, each with what to do instead."""
    if not shape.keeps_former_rows:
        yield (
            f"a view of shape {shape.name} does not keep former rows, because each epoch computes all of it",
            "make a view of the rows with keep first",
        )
    if not upstream.has_versions:
        yield (
            f"changes of an upstream of kind {upstream.kind} have no versions of a table",
            "make a view of its rows first, and name that view here once it is finished",
        )
    if job.backfill_from is not None:
        yield "the table of backfill_from does not say since when its rows are there", "leave backfill_from out"


def _of_rows(job: BegunView, upstream: UpstreamDefinition) -> Iterator[tuple[str, str]]:
    """Yield what a view of rows cannot keep by the upstream's versions."""
    keys = {column.column.lower() for column in upstream.key}
    if others := [name for name in upstream.distribution_key if name.lower() not in keys]:
        yield (
            f"upstream.distribution_key has {', '.join(others)}, so a row may move between vnodes",
            "name only columns of the key there",
        )
    if job.valid_by is ValidBy.EPOCH:
        yield "rows are kept by the upstream's versions, and not by epochs", "set valid_by to version or commit_time"


def _of_units(job: BegunView, shape: JobShape, refresh: Refresh, *, several: bool) -> Iterator[tuple[str, str]]:
    """Yield what a view that is written by units cannot keep."""
    if several and job.valid_by is not ValidBy.EPOCH:
        yield "several upstreams have no version in common", "leave valid_by out, or set it to epoch"
    if refresh is not Refresh.INCREMENTAL:
        yield f"with refresh: {refresh} an epoch may compute the whole view", "leave refresh out"
    if job.kept_since is not None:
        yield (
            f"a view of shape {shape.name} keeps what it was after each epoch, so it has nothing from before the job",
            "leave as_of out",
        )
