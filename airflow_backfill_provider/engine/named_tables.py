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
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.core.job.upstreams import field_of
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
    view = ""
    upstreams = {
        relation: _location_of_upstream(
            _field(job, relation), found.catalog_table, found.location if found.is_placed else "", catalogs
        )
        for relation, found in job.all_upstreams.items()
        if found.catalog_table
    }
    if name := job.view_name:
        view = _location_of_view(name, job.view_location, catalogs)
    return job.placed(upstream=upstreams.pop(job.lead_name, ""), others=upstreams, view=view)


def require_same_upstream(settings: JobSettings, catalogs: Catalogs) -> None:
    """
    Refuse an upstream whose name means another table than when the job was created.

    :raises UpstreamNotFoundError: if the name means no table.
    :raises UpstreamReplacedError: if the name means another table.
    """
    job = settings.definition
    created_on = {job.lead_name: settings.upstream, **settings.others}
    for relation, upstream in job.all_upstreams.items():
        if upstream.catalog_table:
            _require_same(f"{_field(job, relation)}.table", upstream, created_on[relation].table_id, catalogs)


def _require_same(field: str, upstream: UpstreamDefinition, table_id: str, catalogs: Catalogs) -> None:
    name = upstream.catalog_table
    found = catalogs.find(name)
    if found is None or not found.location:
        raise UpstreamNotFoundError(
            f"{field}: there is no table {name} any more; the job was created on one at {upstream.location}; "
            "register it there again, or if it was dropped and made anew, rebuild the job"
        )
    if not (_is_same_place(found.location, upstream.location) and found.table_id == table_id):
        raise UpstreamReplacedError(
            f"{field}: {name} is another table than when the job was created (table {found.table_id} at "
            f"{found.location}, and it was table {table_id} at {upstream.location}); rebuild the job "
            "to backfill from the new table"
        )


def _field(job: BackfillJob, relation: str) -> str:
    return field_of(relation, "upstream") if job.upstreams else "upstream"


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


def _location_of_upstream(field: str, name: str, expected: str, catalogs: Catalogs) -> str:
    found = catalogs.find(name)
    if found is None or not found.location:
        missing = "there is no table" if found is None else "the folder is gone of table"
        raise UpstreamNotFoundError(
            f"{field}.table: {missing} {name}; check the name, and that Spark is started with a catalog that other "
            "sessions see, too"
        )
    if expected and not _is_same_place(found.location, expected):
        raise InvalidJobError(f"{field}.path: {name} lies at {found.location}, not at {expected}; leave path out")
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
