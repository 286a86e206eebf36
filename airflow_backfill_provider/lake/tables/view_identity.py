"""The job that a materialized view belongs to, read from the table's properties without a JVM."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.log.uncommitted import EMPTY_PART, LOG, NO_TABLE, is_no_commit
from airflow_backfill_provider.lake.store.storage import one_line
from airflow_backfill_provider.lake.tables.remains import has_remains
from airflow_backfill_provider.lake.tables.table_properties import table_properties

JOB_PROPERTY = "backfill.job"
INCARNATION_PROPERTY = "backfill.incarnation"
FINISHED_PROPERTY = "backfill.finished"
OWNER_PROPERTY = "backfill.owner"
"""Who created or rebuilt the job; a person or a task run."""
STATE_PROPERTY = "backfill.state"
"""The location of the job's control tables, for the jobs whose upstream the view is."""

KEEP_PROPERTY = "backfill.keep"
"""Which rows the view keeps, if these are not only those of its query; for the jobs whose upstream the view is."""

ADOPTED_PROPERTY = "backfill.adopted_from"
"""The table that something else made and that became the view, with its version."""

_MAGIC_NUMBER_SIZE = 4
"""Bytes of a Parquet file whose writer died after the leading magic number."""


@dataclass(frozen=True, slots=True)
class ViewIdentity:
    """The job and the incarnation that a view belongs to."""

    job: str
    incarnation: str

    @classmethod
    def of(cls, settings: JobSettings) -> ViewIdentity:
        """Return the identity of a job's view, from its settings."""
        return cls(settings.job["name"], settings.incarnation)


def view_properties(path: str, storage_options: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Return the properties of the Delta table at a path, ``None`` if there is none."""
    try:
        return table_properties(path, storage_options)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise MaterializedViewError(
            f"materialized_view: {path} holds files, but no readable Delta table; choose an empty folder "
            f"({one_line(error)})"
        ) from error


def view_identity(path: str, storage_options: Mapping[str, str] | None = None) -> ViewIdentity | None:
    """
    Return the job and the incarnation of the view at a path, ``None`` if the path is free.

    :raises MaterializedViewError: if other files lie there, or a folder above it is a file.
    """
    properties = view_properties(path, storage_options)
    if properties is None:
        try:
            _require_free(path, storage_options)
        except MaterializedViewError:
            # Look again: another process may have created the table meanwhile.
            properties = view_properties(path, storage_options)
            if properties is None:
                raise
    return None if properties is None else identity_of_view(path, properties)


def require_view(settings: JobSettings, storage_options: Mapping[str, str] | None = None) -> ViewIdentity:
    """
    Refuse to work on the files of a job's view if the table at its path is not that view.

    :returns: the view's identity.
    :raises MaterializedViewError: if the view is missing or replaced.
    """
    path, ours = settings.definition.view_location, ViewIdentity.of(settings)
    if view_identity(path, storage_options) != ours:
        raise MaterializedViewError(
            f"materialized_view: {path} does not hold the view of job {ours.job}; it was dropped, replaced or never "
            "created: run the job, or rebuild it"
        )
    return ours


def identity_of_view(path: str, properties: Mapping[str, str]) -> ViewIdentity:
    """
    Return the job and the incarnation of the view at a path, by its properties.

    :raises MaterializedViewError: if the table is not a view of this package.
    """
    found = identity_of(properties)
    if found is None:
        raise MaterializedViewError(
            f"materialized_view: {path} holds another table, not a materialized view of this package; choose an empty "
            "folder"
        )
    return found


def identity_of(properties: Mapping[str, str]) -> ViewIdentity | None:
    """Return the job and the incarnation in a table's properties, ``None`` if it is not a materialized view."""
    if JOB_PROPERTY not in properties:
        return None
    return ViewIdentity(properties[JOB_PROPERTY], properties.get(INCARNATION_PROPERTY, ""))


def identifying_properties(identity: ViewIdentity, *, finished: bool) -> dict[str, str]:
    """Return the properties of a new view that say whose it is, and whether it is finished."""
    return {
        JOB_PROPERTY: identity.job,
        INCARNATION_PROPERTY: identity.incarnation,
        FINISHED_PROPERTY: "true" if finished else "false",
    }


def upstream_view(location: str, properties: Mapping[str, str]) -> UpstreamView | None:
    """
    Return the view and its job if an upstream is a materialized view; ``None`` if it is any other table.

    :param location: canonical location of the upstream.
    :param properties: its table properties.
    """
    found = identity_of(properties)
    if found is None:
        return None
    return UpstreamView(
        location=location,
        job=found.job,
        incarnation=found.incarnation,
        state=properties.get(STATE_PROPERTY, ""),
        is_finished=properties.get(FINISHED_PROPERTY) == "true",
        keep=properties.get(KEEP_PROPERTY, ""),
    )


def remove_uncommitted_files(path: str) -> None:
    """
    Remove what a process left at a local path if it died or failed before the first commit of a table.

    Spark takes a log without a commit for a table. Only temporary files, files without rows and empty folders are
    removed, so a commit that arrives meanwhile loses nothing.
    """
    folder, log = Path(path), Path(path, LOG)
    if not is_local(path) or not log.is_dir() or _has_content(folder):
        return
    for file in (*folder.iterdir(), *log.iterdir()):
        if file.is_file() and (file.parent == folder or is_no_commit(file.name)):
            file.unlink(missing_ok=True)
    with suppress(OSError):
        for staged in filter(Path.is_dir, log.iterdir()):
            staged.rmdir()
        log.rmdir()


def _require_free(path: str, storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse a path without a table at which no table can be created.

    :raises MaterializedViewError: with the reason.
    """
    if not is_local(path):
        has_remains(path, storage_options)
    elif taken := _why_taken(Path(path)):
        raise MaterializedViewError(f"materialized_view: {path} {taken}")


def _why_taken(path: Path) -> str | None:
    """Return why no table can be created at a local path, ``None`` if one can."""
    existing = next(candidate for candidate in (path, *path.parents) if candidate.exists())
    if existing != path:
        return None if existing.is_dir() else f"lies below {existing}, which is a file; choose another folder"
    if path.is_dir() and not _has_content(path):
        return None
    return NO_TABLE


def _has_content(folder: Path) -> bool:
    """Tell whether a folder holds more than the remains of an empty table that was never committed."""
    log = folder / LOG
    entries = [entry for entry in folder.iterdir() if entry != log]
    if not log.is_dir():
        return bool(entries) or log.exists()
    return not (all(map(_is_without_rows, entries)) and all(is_no_commit(file.name) for file in log.glob("*")))


def _is_without_rows(file: Path) -> bool:
    """Tell whether a file is a data file without rows, as Delta writes for an empty table, or its checksum."""
    if not EMPTY_PART.match(file.name) or not file.is_file():
        return False
    if file.suffix == ".crc":
        return True
    try:
        return file.stat().st_size <= _MAGIC_NUMBER_SIZE or pq.read_metadata(file).num_rows == 0
    except (OSError, pa.ArrowInvalid):
        return False
