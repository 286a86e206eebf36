"""
What a process leaves in an object store if it dies while it creates a table, before the first commit.

Delta takes a folder that is not empty for a table, and then creates none. In a local folder such files are removed. In
an object store they stay, because the empty objects that stand for folders cannot be removed with deltalake.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.uncommitted import EMPTY_PART, LOG, NO_TABLE, is_no_commit
from airflow_backfill_provider.lake.store.storage import storage_errors


def create_clause(path: str, storage_options: Mapping[str, str] | None = None) -> str:
    """
    Return how a table is created where there is none.

    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :raises MaterializedViewError: as :func:`has_remains`.
    """
    if not is_local(path) and has_remains(path, storage_options):
        # The transaction of a creation prevents that an older process replaces a table that came meanwhile.
        return "CREATE OR REPLACE TABLE"
    return "CREATE TABLE IF NOT EXISTS"


def has_remains(path: str, storage_options: Mapping[str, str] | None = None) -> bool:
    """
    Return whether a folder of an object store holds something, although it holds no table.

    :param path: its canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :raises MaterializedViewError: if it is more than the remains of an empty table that was never committed.
    """
    with storage_errors(path):
        storage = stored_files(path, storage_options)
        found = storage.get_file_info(arrow_fs.FileSelector("", recursive=True, allow_not_found=True))
        files = [info.path for info in found if info.type is arrow_fs.FileType.File]
        if not all(_is_remains(storage, file) for file in files):
            raise MaterializedViewError(f"materialized_view: {path} {NO_TABLE}")
    return bool(found)


def _is_remains(storage: arrow_fs.FileSystem, path: str) -> bool:
    first, _, rest = path.partition("/")
    if first == LOG:
        # Hadoop writes an empty object in place of a folder.
        return not rest or is_no_commit(rest)
    return EMPTY_PART.match(path) is not None and _is_without_rows(storage, path)


def _is_without_rows(storage: arrow_fs.FileSystem, path: str) -> bool:
    try:
        with storage.open_input_file(path) as file:
            return int(pq.read_metadata(file).num_rows) == 0
    except pa.ArrowInvalid:
        return False
