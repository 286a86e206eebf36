"""
Whether an object store lets at most one of two writers have a version of a table.

Only stores with the API of S3 may not: some of them accept ``If-None-Match: *`` and ignore it. Then both writers
are told that they have committed, and one of the commits is gone. Only an attempt shows this.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from airflow_backfill_provider.core.errors import UnsafeCommitsError
from airflow_backfill_provider.core.log_store import SCHEMES
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import storage_errors

PROBE_SCHEMA = pa.schema([("probe", pa.int64())])


def require_exclusive_commits(tables: Iterable[str], storage_options: Mapping[str, str] | None) -> None:
    """
    Refuse tables in a bucket where a second writer can replace the first one's commit.

    Tries it with a small table beside one table of each bucket, and deletes it afterwards.

    :param tables: canonical locations; nothing needs to be there yet.
    :param storage_options: options of the object store, as deltalake takes them.
    :raises UnsafeCommitsError: with the bucket.
    """
    on_s3 = [table for table in tables if table.partition("://")[0] in SCHEMES]
    of_buckets = {"/".join(table.split("/")[:3]): table for table in on_s3}
    for bucket, table in of_buckets.items():
        if not _is_exclusive(f"{table}_probe_{uuid.uuid4().hex}", dict(storage_options or {})):
            raise UnsafeCommitsError(
                f"{bucket} lets a second writer replace the first one's commit, so commits to tables in it may be "
                "lost; choose a store with conditional put (If-None-Match), or enable it"
            )


def _is_exclusive(probe: str, options: dict[str, str]) -> bool:
    with storage_errors(probe):
        DeltaTable.create(probe, PROBE_SCHEMA, storage_options=options_of(probe, options))
        exclusive = second_commit_fails(probe, options)
    drop_table(probe, options)
    return exclusive


def second_commit_fails(table: str, options: dict[str, str]) -> bool:
    """
    Return whether the second of two writers of the same version fails.

    :param table: location of a table with :data:`PROBE_SCHEMA`.
    """
    row = pa.table({"probe": pa.array([1], pa.int64())}, PROBE_SCHEMA)
    writers = [DeltaTable(table, storage_options=options_of(table, options)) for _ in range(2)]
    try:
        for writer in writers:
            write_deltalake(writer, row, mode="append", commit_properties=CommitProperties(max_commit_retries=0))
    except CommitFailedError:
        return True
    return False
