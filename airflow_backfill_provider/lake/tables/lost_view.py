"""
Finds out, without Spark, whether the view that the epochs wrote is still there.

The control tables lie elsewhere, so they say "finished" also of a view that somebody deleted, emptied or replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.store.one_listing import one_listing
from airflow_backfill_provider.lake.store.storage import log_errors
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity, identity_of_view, view_identity


def why_view_is_lost(
    settings: JobSettings, written: TableVersions | None, storage_options: Mapping[str, str] | None = None
) -> str:
    """
    Return why a job's view is not the one that its last epoch left; empty if it is.

    In an object store the data files are not looked for: to list those of a large view costs more than an epoch. A
    verification reads them.

    :param written: the tables' versions after the last epoch; ``None`` if no epoch wrote to the view.
    """
    if written is None:
        return ""
    path, name = settings.definition.view_location, settings.job["name"]
    with one_listing():
        # A local table is opened once: for whose it is, and for its files.
        table = _opened(path) if is_local(path) else None
        try:
            found = (
                view_identity(path, storage_options)
                if table is None
                else identity_of_view(path, table.metadata().configuration)
            )
        except MaterializedViewError:
            return f"materialized_view: {path} holds files that are not the view of job {name}"
        if found is None:
            return f"materialized_view: the view of job {name} is gone from {path}"
        if found != ViewIdentity.of(settings):
            return f"materialized_view: {path} is no longer the view of job {name}; it was dropped or replaced"
        newest = max(DeltaLog(path, storage_options).versions(), default=-1)
    if newest < written.view.version:
        return (
            f"materialized_view: the log of {path} ends with version {newest}, but an epoch wrote version "
            f"{written.view.version}; an older copy was restored"
        )
    missing = 0 if table is None else _missing_files(path, table)
    return f"materialized_view: {missing} of the data files of {path} are gone" if missing else ""


def _opened(path: str) -> DeltaTable | None:
    """Return a local table; ``None`` if there is no readable one."""
    try:
        return DeltaTable(path)
    except DeltaError:
        return None


def _missing_files(path: str, table: DeltaTable) -> int:
    """Return how many files of a local table's version do not exist."""
    with log_errors(path):
        files = pa.table(table.get_add_actions())["path"]
    # The log has the names of files as URIs.
    return sum(not Path(path, unquote(file)).exists() for file in files.to_pylist())
