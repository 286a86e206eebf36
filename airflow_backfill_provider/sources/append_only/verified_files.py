"""
The files of a file log as a Delta table of their own, which Delta's own scan reads for a verification.

Epochs read data files past Delta. A verification must not share that reader, or it would repeat its mistakes. The table
here has a log and no files; see :mod:`airflow_backfill_provider.lake.log.numbered_log`. It also has files that a
compaction has removed from the original table, and no version of that has to be readable.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import pyarrow.fs as arrow_fs

from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.dropping import drop_table
from airflow_backfill_provider.lake.log.log_state import Action, LogState, log_state, partition_values
from airflow_backfill_provider.lake.log.numbered_log import write_numbered_log
from airflow_backfill_provider.lake.store.storage import log_errors, storage_errors
from airflow_backfill_provider.lake.tables.existing import is_table
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile

PREFIX = "_verified_"
"""How the names of these tables begin in the folder of the file log. A VACUUM of that skips names with underscores."""

KEPT_FOR = dt.timedelta(days=1)
"""How long a table is kept, at least: the steps of a verification share one, and others may run meanwhile."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedFiles:
    """
    Makes tables of chosen files.

    :param log: the log of the original table.
    :param version: the newest version of the original table, whose columns the files are read with.
    :param file_log: the location of the file log.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    log: DeltaLog
    version: int
    file_log: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def table(self, files: Sequence[FoundFile]) -> str:
        """
        Make a table of some files, numbered in their order, and return its location.

        The rows are those that were appended: rows that somebody deleted since are there.

        :raises TableLogError: if the log of the original table is damaged.
        """
        with log_errors(self.log.location):
            state = self._state(files)
        content = json.dumps([state.protocol, state.metadata, [*state.files.values()]], sort_keys=True)
        self._drop_old()
        location = f"{self.file_log}/{PREFIX}{hashlib.sha256(content.encode()).hexdigest()[:32]}"
        if not is_table(location, self.storage_options):
            write_numbered_log(location, self.log.location, state, [*state.files], self.storage_options)
        return location

    def _state(self, files: Sequence[FoundFile]) -> LogState:
        newest = log_state(self.log, self.version)
        logged = {unquote(path): entry for path, entry in newest.files.items()}
        wanted = {file.path for file in files} - logged.keys()
        if wanted and newest.metadata.get("partitionColumns"):
            logged |= self._removed(wanted)
            self._warn_of(sorted(wanted - logged.keys()))
        entries = (_entry(file, logged.get(file.path)) for file in files)
        return LogState({entry["path"]: entry for entry in entries}, newest.protocol, newest.metadata)

    def _removed(self, wanted: set[str]) -> dict[str, Action]:
        """Return the newest entries of files that compactions removed, as far as the log has them."""
        found: dict[str, Action] = {}
        for version in reversed(self.log.versions()):
            if wanted <= found.keys():
                break
            for action in self.log.actions(version) or ():
                entry = action.get("remove") or action.get("add") or {}
                path = unquote(entry.get("path", ""))
                if path in wanted and entry.get("partitionValues") is not None:
                    found.setdefault(path, entry)
        return found

    def _warn_of(self, unknown: Sequence[str]) -> None:
        if unknown:
            logger.warning(
                "%s: the log no longer has the partition values of %d compacted data files (%s%s), so they are "
                "verified with the values that epochs noted in the file log",
                self.log.location,
                len(unknown),
                unknown[0],
                ", …" if len(unknown) > 1 else "",
            )

    def _drop_old(self) -> None:
        before = dt.datetime.now(dt.UTC) - KEPT_FOR
        with storage_errors(self.file_log):
            storage = stored_files(self.file_log, self.storage_options)
            tables = [info.path for info in storage.get_file_info(arrow_fs.FileSelector("")) if _is_one(info.path)]
            logs = storage.get_file_info([f"{path}/_delta_log/{0:020d}.json" for path in tables]) if tables else []
        for path, log in zip(tables, logs, strict=True):
            if log.mtime is None or log.mtime < before:
                drop_table(f"{self.file_log}/{path}", self.storage_options)


def _is_one(path: str) -> bool:
    return path.startswith(PREFIX)


def _entry(file: FoundFile, logged: Action | None) -> Action:
    """Return what a log has of a file: the path and the values of partitions by the table's log, if that has them."""
    if logged is None:
        logged = {"path": quote(file.path), "partitionValues": json.loads(file.details or "{}")}
    return {
        "path": logged["path"],
        "partitionValues": partition_values(logged),
        "size": file.size,
        "modificationTime": file.modified,
    }
