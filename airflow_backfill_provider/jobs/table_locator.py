"""
Finds the locations of the tables that a job names in a catalog, before the job is created or rebuilt.

Only Spark can ask a catalog. The settings pin what it answers, so everything else works with locations, without Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs.backfill import Backfill


class TableLocator(Protocol):
    """An engine that can ask catalogs."""

    def place(self, job: BackfillJob) -> BackfillJob:
        """Return a job with the locations of the tables that it names in a catalog."""
        ...


def to_create(backfill: Backfill, engine: Callable[[], TableLocator]) -> Backfill:
    """
    Return a job with the locations of its tables: those of its creation, or else those that the catalogs have now.

    :param engine: makes the engine when it is needed; starting Spark takes seconds.
    :raises BackfillError: if a name cannot be used, or a location is not allowed.
    """
    job = backfill.job
    if not _names_tables(job):
        return backfill
    if backfill.store.created():
        created = job.placed_like(backfill.settings().definition)
        if created.is_placed:
            return Backfill(created, backfill.storage_options)
    return Backfill(engine().place(job), backfill.storage_options)


def to_rebuild(backfill: Backfill, engine: Callable[[], TableLocator]) -> Backfill:
    """
    Return a created job with the locations that the catalogs have now. Its view stays where it is.

    :raises BackfillError: as :func:`to_create`.
    """
    job = backfill.job
    if not _names_tables(job):
        return backfill
    view = job.placed_like(backfill.settings().definition).view_location
    return Backfill(engine().place(job.placed(view=view if job.view_name else "")), backfill.storage_options)


def _names_tables(job: BackfillJob) -> bool:
    return bool(job.view_name or any(found.catalog_table for found in job.all_upstreams.values()))
