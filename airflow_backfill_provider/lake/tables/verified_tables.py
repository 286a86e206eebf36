"""The tables and versions that a verification compares, read from their logs without a JVM."""

from __future__ import annotations

from collections.abc import Mapping

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.errors import VerificationFailedError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog, stamp_of
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import one_line, storage_errors


def table_id(path: str, storage_options: Mapping[str, str] | None = None) -> str:
    """
    Return the id of the Delta table at a path.

    :raises VerificationFailedError: if the table is missing or cannot be read.
    """
    try:
        with storage_errors(path):
            table = DeltaTable(path, storage_options=options_of(path, storage_options))
        return str(table.metadata().id)
    except (DeltaError, ValueError) as error:
        raise VerificationFailedError(
            f"the Delta table at {path} cannot be read, so it cannot be verified ({one_line(error)}); restore it, "
            "or rebuild the job"
        ) from error


def view_version_of(path: str, incarnation: str, epoch: int, storage_options: Mapping[str, str] | None = None) -> int:
    """
    Return the view's newest version before any later epoch wrote to it.

    It includes what foreign writers wrote since the given epoch. It excludes what a later epoch has written so far,
    because that epoch may not have committed yet.
    """
    log = DeltaLog(path, storage_options)
    versions = log.versions()
    newest = versions[-1]
    for version in reversed(versions):
        commit = log.commit(version)
        if commit is None:
            break
        stamp = stamp_of(commit)
        if stamp.get("incarnation") != incarnation or stamp.get("event") != "epoch":
            continue
        if int(str(stamp["epoch"])) <= epoch:
            break
        newest = version - 1
    return newest
