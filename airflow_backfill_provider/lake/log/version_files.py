"""Whether the files of older versions of a table are still there, and those of the changes since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.lake.files.deletion_vectors import vector_file
from airflow_backfill_provider.lake.files.own_files import lies_outside
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import Action, log_state
from airflow_backfill_provider.lake.store.storage import storage_errors

OF_LOG = "the log of that version"


def missing_file(location: str, version: int, storage_options: Mapping[str, str] | None = None) -> str:
    """
    Return the first file of a version that is gone; an empty text if all are there.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :returns: the path of the file in the table, or :data:`OF_LOG` if the log no longer has the version.
    """
    with storage_errors(location):
        log = DeltaLog(location, storage_options)
        try:
            state = log_state(log, version)
        except FileNotFoundError:
            return OF_LOG
        listed = log.storage.get_file_info(arrow_fs.FileSelector("", recursive=True))
        present = {found.path for found in listed if found.type is arrow_fs.FileType.File}
    needed = (path for entry in state.files.values() for path in _paths(entry))
    return next((path for path in needed if path not in present), "")


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """
    The versions of a table whose rows, and the changes since, can still be read.

    :param oldest: the oldest of them.
    :param metadata: version → the metadata that the table had from it on: of the oldest, and of those that changed it.
    """

    oldest: int
    metadata: Mapping[int, Action]


def kept_versions(log: DeltaLog, newest: int, since: int = 0) -> KeptVersions:
    """
    Return the versions up to the newest one of which no file is gone.

    :param since: the version before which none is looked for.

    The rows of a version lie in the files of the next one, and in those that it removed. So this reads the commits from
    the newest version back, up to the first that is gone or needs a file that is.
    """
    with storage_errors(log.location):
        first = max(log.files().oldest_readable(), since)
        oldest, metadata = newest, dict[int, Action]()
        while oldest > first:
            actions = log.actions(oldest)
            if actions is None or not _are_there(log, _needed(actions)):
                break
            metadata.update((oldest, action["metaData"]) for action in actions if "metaData" in action)
            oldest -= 1
        metadata[oldest] = log_state(log, oldest).metadata
    return KeptVersions(oldest, dict(sorted(metadata.items())))


def _needed(actions: list[dict[str, dict[str, Any]]]) -> Iterator[str]:
    """Yield the paths of the files without which the changes of a commit, or the rows before it, cannot be read."""
    for action in actions:
        for kind in _FORMER & action.keys():
            yield from _paths(action[kind])


_FORMER = {"remove", "cdc"}
"""The kinds of a commit's files that the newest version need not have."""


def _are_there(log: DeltaLog, paths: Iterable[str]) -> bool:
    return all(found.type is arrow_fs.FileType.File for found in log.storage.get_file_info([*paths]))


def _paths(entry: Action) -> Iterator[str]:
    """Yield the paths of an entry's files, relative to the table; files outside of the table are left out."""
    path = entry["path"]
    if not lies_outside(path):
        yield unquote(path)
    if (vector := entry.get("deletionVector")) and (file := vector_file(vector)):
        yield file
