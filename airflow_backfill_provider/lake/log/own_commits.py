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

ENGINE = "airflow-backfill-provider"
"""What a commit of this package names as its writer."""


def has_links(location: str) -> bool:
    """
    Return whether a version of a local table can be taken by a hard link, which never replaces a file.

    Some file systems have no links. Neither this package nor deltalake can commit there; Delta's own writer can.
    """
    log = Path(location, LOG)
    file, link = (log / f".{uuid.uuid4()}.tmp" for _ in range(2))
    try:
        file.touch(exist_ok=False)
        os.link(file, link)
    except OSError:
        return False
    finally:
        for made in (file, link):
            made.unlink(missing_ok=True)
    return True


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
    info = {
        "timestamp": milliseconds(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": version - 1,
        "isBlindAppend": True,
        "userMetadata": user_metadata,
        "engineInfo": ENGINE,
    }
    lines: list[Mapping[str, object]] = [
        {"commitInfo": info},
        transaction_entry(*transaction),
        *({"add": _added(file)} for file in files),
    ]
    write_commit(location, version, lines)


def transaction_entry(name: str, version: int) -> dict[str, dict[str, object]]:
    """Return the entry of an application's transaction."""
    return {"txn": {"appId": name, "version": version, "lastUpdated": milliseconds()}}


def milliseconds() -> int:
    """Return the present time as the log has it."""
    return time.time_ns() // 1_000_000


def write_commit(location: str, version: int, lines: Iterable[Mapping[str, object]]) -> None:
    """
    Write a commit whole.

    :param location: the table's canonical location.
    :param version: the version, which must be the one after the newest.
    :param lines: the entries of the log.
    :raises CommitFailedError: if the table has the version already.
    :raises StorageUnavailableError: if its storage does not answer, or has no links; see :func:`has_links`.
    """
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
