"""
What a source makes for a job outside of the lake, such as a replication slot, ends with the job that never came to be.

A database keeps its log for a slot, so a slot without a job would fill the database's disk. If creating a job fails,
what was made is removed again. If the process is killed in between, cancelling the job does that, although it was
never created.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import JobNotCreatedError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.lake.store.storage import one_line
from airflow_backfill_provider.lake.tables.view_identity import (
    ViewIdentity,
    identity_of,
    view_identity,
    view_properties,
)
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.state.store import BackfillStore

logger = logging.getLogger(__name__)


@contextmanager
def undone_unless_created(job: BackfillJob, store: BackfillStore, upstream: Source) -> Iterator[None]:
    """Take back what the upstream began, if the job is not created in the end, or is still a cancelled one."""
    try:
        yield
    except BaseException:
        if not _is_alive(store):
            _undo(job.name, upstream)
        raise


@contextmanager
def undone_unless_used(settings: JobSettings, store: BackfillStore, upstream: Source) -> Iterator[None]:
    """
    Take back what the upstream began, if the tables of a new job cannot be made.

    The job's settings stay. Creating the job again begins anew.
    """
    try:
        yield
    except BaseException:
        is_left = is_unused(store, has_view=has_view_of(settings, store))
        if is_left and store.settings().incarnation == settings.incarnation:
            _undo(settings.job["name"], upstream)
        raise


def cancel_uncreated(job: BackfillJob, store: BackfillStore, upstream: Source) -> None:
    """
    Remove what a process made for a job and left, because it died before the job was created.

    :raises JobNotCreatedError: if there is nothing to remove.
    """
    if store.created() or not upstream.undo_begin(job.name):
        raise JobNotCreatedError(f"job {job.name} was not created yet, and has nothing to remove: {store.location}")


def has_view_of(settings: JobSettings, store: BackfillStore) -> bool:
    """Return whether the view of a job's incarnation is there."""
    location, options = settings.definition.view_location, store.storage_options
    if settings.adopts_in_place:
        # Before it is adopted, the table is another one there.
        return identity_of(view_properties(location, options) or {}) == ViewIdentity.of(settings)
    return view_identity(location, options) == ViewIdentity.of(settings)


def is_unused(store: BackfillStore, *, has_view: bool) -> bool:
    """Return whether a job has no view, and never had an epoch, so that it may begin anew."""
    return not (has_view or store.last_epoch())


def _is_alive(store: BackfillStore) -> bool:
    try:
        return store.created() and not store.settings().cancelled
    except Exception:  # noqa: BLE001 - whatever keeps it from being read kept it from being written
        return False


def _undo(job: str, upstream: Source) -> None:
    """Undo the beginning; the error that led here is more important than one of this."""
    try:
        upstream.undo_begin(job)
    except Exception as error:  # noqa: BLE001
        logger.warning(
            "what creating job %s made for %s was not removed (%s); cancel the job to remove it",
            job,
            upstream.location,
            one_line(error),
        )
