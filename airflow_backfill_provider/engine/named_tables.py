"""
The tables that a job names in a catalog: finds their locations at creation, and checks the names in every epoch.

An epoch reads and writes locations, never names. So a name that means another table from now on cannot mix two tables
in one view: the check refuses it.
"""

from __future__ import annotations

import re

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import (
    CatalogError,
    InvalidJobError,
    MaterializedViewError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.spark.catalog import Catalogs

_S3 = re.compile(r"^s3[an]?://")


def place(job: BackfillJob, catalogs: Catalogs) -> BackfillJob:
    """
    Return a job with the locations of the tables that it names, before it is created or rebuilt.

    :raises UpstreamNotFoundError: if the upstream's name means no table.
    :raises InvalidJobError: if a table lies elsewhere than the job says.
    :raises MaterializedViewError: if the view's name means another table.
    :raises CatalogError: if a catalog cannot be asked, or has no place for the view.
    """
    upstream = view = ""
    if name := job.upstream.catalog_table:
        upstream = _location_of_upstream(name, job.upstream.location if job.upstream.is_placed else "", catalogs)
    if name := job.view_name:
        view = _location_of_view(name, job.view_location, catalogs)
    return job.placed(upstream=upstream, view=view)


def require_same_upstream(settings: JobSettings, catalogs: Catalogs) -> None:
    """
    Refuse an upstream whose name means another table than when the job was created.

    :raises UpstreamNotFoundError: if the name means no table.
    :raises UpstreamReplacedError: if the name means another table.
    """
    upstream = settings.definition.upstream
    name = upstream.catalog_table
    if not name:
        return
    found = catalogs.find(name)
    if found is None or not found.location:
        raise UpstreamNotFoundError(
            f"upstream.table: there is no table {name} any more; the job was created on one at {upstream.location}; "
            "register it there again, or if it was dropped and made anew, rebuild the job"
        )
    is_same = _is_same_place(found.location, upstream.location)
    if not (is_same and found.table_id == settings.upstream.table_id):
        raise UpstreamReplacedError(
            f"upstream.table: {name} is another table than when the job was created (table {found.table_id} at "
            f"{found.location}, and it was table {settings.upstream.table_id} at {upstream.location}); rebuild the job "
            "to backfill from the new table"
        )


def register_view(settings: JobSettings, catalogs: Catalogs) -> None:
    """
    Give a job's view its name in the catalog, unless it has it.

    Each epoch does so, too: creation may have died before it, and a catalog may have lost the name.

    :raises MaterializedViewError: if another table has the name.
    """
    job = settings.definition
    name = job.view_name
    if not name:
        return
    found = catalogs.find(name)
    if found is None:
        catalogs.register(name, job.view_location)
        found = catalogs.find(name)
    if found is None or not _is_same_place(found.location, job.view_location):
        where = "no table" if found is None else f"a table at {found.location or 'a folder that is gone'}"
        raise MaterializedViewError(
            f"materialized_view: {name} means {where}, not the view of job {job.name} at {job.view_location}; drop or "
            "rename that table, and the view gets its name back, or rebuild the job"
        )


def _location_of_upstream(name: str, expected: str, catalogs: Catalogs) -> str:
    found = catalogs.find(name)
    if found is None or not found.location:
        missing = "there is no table" if found is None else "the folder is gone of table"
        raise UpstreamNotFoundError(
            f"upstream.table: {missing} {name}; check the name, and that Spark is started with a catalog that other "
            "sessions see, too"
        )
    if expected and not _is_same_place(found.location, expected):
        raise InvalidJobError(f"upstream.path: {name} lies at {found.location}, not at {expected}; leave path out")
    return expected or found.location


def _location_of_view(name: str, expected: str, catalogs: Catalogs) -> str:
    found = catalogs.find(name)
    if found is not None and not found.location and not expected:
        raise CatalogError(f"materialized_view: the catalog has {name}, but the table's folder is gone; drop the name")
    if found is not None and found.location:
        if expected and not _is_same_place(found.location, expected):
            raise MaterializedViewError(
                f"materialized_view: {name} is another table, at {found.location}; choose another name, or drop it"
            )
        return expected or found.location
    if expected:
        return expected
    folder = catalogs.folder_of_schema(name)
    if not folder:
        raise CatalogError(
            f"materialized_view: the catalog does not say where it puts tables of the schema of {name}; give view_path"
        )
    return f"{folder}/{name.rpartition('.')[2].lower()}"


def _is_same_place(one: str, other: str) -> bool:
    """Return whether two locations are the same one; object stores of Amazon's kind have several schemes."""
    return _S3.sub("s3://", one) == _S3.sub("s3://", other)
