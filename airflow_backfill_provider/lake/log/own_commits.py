"""
Writes a commit into the log of a local Delta table, for tables to which deltalake commits nothing.

deltalake knows what it means that a table is clustered, and still refuses to write to one. A commit of new files is a
few lines of JSON, and a version is taken by the first that gives its name to a file.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from airflow_backfill_provider.lake.log.uncommitted import LOG
from airflow_backfill_provider.lake.store.storage import storage_errors


def commit_append(
    location: str, version: int, files: Iterable[AddAction], *, transaction: tuple[str, int], user_metadata: str
) -> None:
    """
    Commit an append as a version of a local table.

    :param location: the table's canonical location.
    :param version: the version, which must be the one after the newest.
    :param transaction: the application's id and its version.
    :param user_metadata: the writer's own text.
    :raises CommitFailedError: if the table has the version already.
    :raises StorageUnavailableError: if its storage does not answer.
    """
    now = time.time_ns() // 1_000_000
    name, number = transaction
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": version - 1,
        "isBlindAppend": True,
        "userMetadata": user_metadata,
        "engineInfo": "airflow-backfill-provider",
    }
    lines: list[Mapping[str, object]] = [
        {"commitInfo": info},
        {"txn": {"appId": name, "version": number, "lastUpdated": now}},
        *({"add": _added(file)} for file in files),
    ]
    log = Path(location, LOG)
    staged = log / f".{uuid.uuid4()}.tmp"
    with storage_errors(location):
        try:
            with staged.open("x", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(line)}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            # Unlike a rename, a link never replaces a file.
            os.link(staged, log / f"{version:020d}.json")
        except FileExistsError:
            raise CommitFailedError(f"version {version} of {location} exists already") from None
        finally:
            staged.unlink(missing_ok=True)


def _added(file: AddAction) -> dict[str, object]:
    return {
        "path": file.path,
        "partitionValues": dict(file.partition_values),
        "size": file.size,
        "modificationTime": file.modification_time,
        "dataChange": file.data_change,
        "stats": file.stats,
    }
