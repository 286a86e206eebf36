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

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.table_version import TableVersions
from airflow_backfill_provider.lake.bucket_options import options_of
from airflow_backfill_provider.lake.delta_log import DeltaLog
from airflow_backfill_provider.lake.one_listing import one_listing
from airflow_backfill_provider.lake.storage import log_errors
from airflow_backfill_provider.lake.view_identity import ViewIdentity, view_identity

REMEDY = "restore the view, or rebuild the job"


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
        try:
            found = view_identity(path, storage_options)
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
    missing = _missing_files(path, storage_options)
    return f"materialized_view: {missing} of the data files of {path} are gone" if missing else ""


def _missing_files(path: str, storage_options: Mapping[str, str] | None) -> int:
    """Return how many files of a local table's newest version do not exist."""
    if not is_local(path):
        return 0
    with log_errors(path):
        files = pa.table(DeltaTable(path, storage_options=options_of(path, storage_options)).get_add_actions())["path"]
    # The log has the names of files as URIs.
    return sum(not Path(path, unquote(file)).exists() for file in files.to_pylist())
