"""Whose table lies at a materialized view's path, read from its properties without a JVM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.lake.storage import one_line, storage_errors

JOB_PROPERTY = "backfill.job"
INCARNATION_PROPERTY = "backfill.incarnation"
FINISHED_PROPERTY = "backfill.finished"

_LOG = "_delta_log"

_EMPTY_PART = re.compile(r"^\.?part-\d{5}-[0-9a-f-]{36}[-.\w]*\.parquet(\.crc)?$")
_NOTHING_YET = 4
"""Bytes of a Parquet file of which nothing but the first mark is written."""


@dataclass(frozen=True, slots=True)
class ViewIdentity:
    """The job and the incarnation that a view belongs to."""

    job: str
    incarnation: str

    @classmethod
    def of(cls, settings: JobSettings) -> ViewIdentity:
        """Return whose the view of a job's settings is."""
        return cls(settings.job["name"], settings.incarnation)


def view_properties(path: str, storage_options: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Return the table properties at a path, ``None`` if there is no Delta table."""
    try:
        with storage_errors(path):
            table = DeltaTable(path, storage_options=dict(storage_options or {}) or None)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        raise MaterializedViewError(
            f"materialized_view: {path} holds files that are no Delta table; choose an empty folder ({one_line(error)})"
        ) from error
    return {name: str(value) for name, value in table.metadata().configuration.items()}


def view_identity(path: str, storage_options: Mapping[str, str] | None = None) -> ViewIdentity | None:
    """
    Return whose view lies at a path, ``None`` if there is nothing.

    :raises MaterializedViewError: if something lies there, or above, that leaves no place for a view of this package.
    """
    properties = view_properties(path, storage_options)
    if properties is None and is_local(path) and (taken := _why_taken(Path(path))):
        # Or somebody made the table meanwhile.
        properties = view_properties(path, storage_options)
        if properties is None:
            raise MaterializedViewError(f"materialized_view: {path} {taken}")
    if properties is None:
        return None
    found = identity_of(properties)
    if found is None:
        raise MaterializedViewError(
            f"materialized_view: {path} holds another table, not a materialized view of this package; choose an empty "
            "folder"
        )
    return found


def identity_of(properties: Mapping[str, str]) -> ViewIdentity | None:
    """Return whose view a table is by its properties, ``None`` if nobody's."""
    if JOB_PROPERTY not in properties:
        return None
    return ViewIdentity(properties[JOB_PROPERTY], properties.get(INCARNATION_PROPERTY, ""))


def unfinished_view(path: str, properties: Mapping[str, str]) -> str:
    """
    Return what to say of an upstream that is a materialized view which is not finished; empty if it isn't one.

    :param path: canonical location of the upstream.
    :param properties: its table properties.
    """
    found = identity_of(properties)
    if found is None or properties.get(FINISHED_PROPERTY) == "true":
        return ""
    return (
        f"the upstream {path} is the materialized view of job {found.job}, which is not finished: it lacks rows, "
        "or shows them as of several versions, and a view over it shows no more; finish that job, then run this one"
    )


def remove_what_was_not_committed(path: str) -> None:
    """
    Remove what is left at a local path of a table whose maker died, or failed, before it committed it.

    Nothing that was committed goes, however late: only temporary files, files without a row, which no commit names,
    and the folders if nothing else is in them. Spark takes a log without a commit for a table.
    """
    folder, log = Path(path), Path(path, _LOG)
    if not is_local(path) or not log.is_dir() or _has_content(folder):
        return
    for file in (*folder.iterdir(), *log.iterdir()):
        if file.is_file() and (file.parent == folder or _is_no_commit(file)):
            file.unlink(missing_ok=True)
    with suppress(OSError):
        for staged in filter(Path.is_dir, log.iterdir()):
            staged.rmdir()
        log.rmdir()


def _why_taken(path: Path) -> str | None:
    """Return why no table can be made in a place, if none can."""
    there = next(place for place in (path, *path.parents) if place.exists())
    if there != path:
        return None if there.is_dir() else f"lies below {there}, which is a file; choose another folder"
    if path.is_dir() and not _has_content(path):
        return None
    return "holds files that are no Delta table; choose an empty folder"


def _has_content(folder: Path) -> bool:
    """Tell whether a folder holds more than what whoever died making an empty table leaves behind."""
    log = folder / _LOG
    entries = [entry for entry in folder.iterdir() if entry != log]
    if not log.is_dir():
        return bool(entries) or log.exists()
    return not (all(map(_is_without_rows, entries)) and all(map(_is_no_commit, log.glob("*"))))


def _is_without_rows(file: Path) -> bool:
    """Tell whether a file is one that Delta writes, of a table without rows, or that file's checksum."""
    if not _EMPTY_PART.match(file.name) or not file.is_file():
        return False
    if file.suffix == ".crc":
        return True
    try:
        return file.stat().st_size <= _NOTHING_YET or pq.read_metadata(file).num_rows == 0
    except (OSError, pa.ArrowInvalid):
        return False


def _is_no_commit(file: Path) -> bool:
    return file.name.startswith((".", "_"))
