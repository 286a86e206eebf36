"""
The chain of a job whose upstream is another job's view.

A view says whose it is, whether it is finished, and where the control tables of its job lie. A job reads only versions
of a finished view: each of them has the query's rows as of one offset of that view's own upstream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from airflow_backfill_provider.core.errors import BackfillError, UpstreamNotFinishedError
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.location import default_state
from airflow_backfill_provider.core.status.chain import ChainedJob, waits_for
from airflow_backfill_provider.jobs.progress import current_progress
from airflow_backfill_provider.lake.store.allowed_roots import require_location_allowed
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.state.backfill_reader import BackfillReader

MOST_JOBS = 20
"""The longest chain that is followed; a longer one is a circle."""


def require_finished(view: UpstreamView | None, storage_options: Mapping[str, str] | None = None) -> None:
    """
    Refuse a view as the upstream of another job if it is not finished.

    :param view: the view; ``None`` if the upstream is no view.
    :raises UpstreamNotFinishedError: with the job and its progress.
    """
    if view is None or view.is_finished:
        return
    raise UpstreamNotFinishedError(
        f"{waits_for(chain_of(view, storage_options))}: the upstream {view.location} is the view of job {view.job} and "
        "is not finished, so it lacks rows; finish that job first"
    )


def chain_of(view: UpstreamView | None, storage_options: Mapping[str, str] | None = None) -> tuple[ChainedJob, ...]:
    """
    Return the jobs before a job, in the order in which they run.

    :param view: the view that the job reads; ``None`` if its upstream is no view.
    """
    return tuple(_before(view, dict(storage_options or {})))[::-1]


def _before(view: UpstreamView | None, options: Mapping[str, str]) -> Iterator[ChainedJob]:
    """Yield the job of a view, then the one of the view that it reads, and so on."""
    for _ in range(MOST_JOBS):
        if view is None:
            return
        reader = reader_of(view, options)
        yield ChainedJob(
            name=view.job,
            materialized_view=view.location,
            state="" if reader is None else reader.location,
            finished=view.is_finished,
            progress=1.0 if view.is_finished else _progress(view, reader),
        )
        view = None if reader is None else _upstream_of(reader, options)


def reader_of(view: UpstreamView, options: Mapping[str, str]) -> BackfillReader | None:
    """Return the control tables of a view's job; ``None`` if they are not where the view or the default says."""
    for state in _places(view):
        try:
            # The view may be another team's, and name any place.
            require_location_allowed("state", state)
            reader = BackfillReader(state, options)
            if reader.created() and reader.settings().job["name"] == view.job:
                return reader
        except BackfillError:
            continue
    return None


def _places(view: UpstreamView) -> Sequence[str]:
    # The default counts if the tables were moved together, and for views of older packages.
    return [state for state in dict.fromkeys((view.state, default_state(view.location, view.job))) if state]


def _progress(view: UpstreamView, reader: BackfillReader | None) -> float | None:
    if reader is None:
        return None
    try:
        return current_progress(reader, view.incarnation)[0]
    except BackfillError:
        return None


def _upstream_of(reader: BackfillReader, options: Mapping[str, str]) -> UpstreamView | None:
    try:
        return open_source(reader.settings().definition.upstream, options).view_at()
    except BackfillError:
        return None
