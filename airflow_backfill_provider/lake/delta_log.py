"""
Single commits of a Delta log, read as they were written.

The log is the truth about what happened to a table: which transaction ids were committed with which metadata,
which versions still exist, when each was written. ``DeltaTable.history`` leaves out transactions and does not
see tables under a path with escaped characters, so the commit files are read here.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader

import pyarrow.fs as arrow_fs
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.lake.schemas import TableSchema
from airflow_backfill_provider.lake.storage import log_errors, storage_errors

_COMMIT_INFO = b'{"commitInfo":'
_METADATA = b'"metaData"'
_COMMIT_FILE = re.compile(r"(?:^|/)(\d{20})\.json$")
_CHECKPOINT_FILE = re.compile(
    r"(?:^|/)(\d{20})\.checkpoint(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.[^./]+)?\.(?:parquet|json)$"
)

Written = tuple[int | None, int | None]
"""Size and time of change of a commit file: a table that was made anew may have as many versions, but not the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """
    One version of a Delta table.

    :param timestamp: when it was written; the in-commit timestamp where the table has them.
    :param operation: what the writer called it, such as ``MERGE``.
    :param user_metadata: the writer's own text, if any.
    :param transactions: application transaction id → version that the commit recorded.
    :param changes_data: whether it added, removed or changed rows (compaction does not).
    :param replaces_metadata: whether schema, properties or table id were written anew.
    :param output_rows: rows written, where the writer said so.
    """

    version: int
    timestamp: dt.datetime
    operation: str
    user_metadata: str | None
    transactions: Mapping[str, int]
    changes_data: bool
    replaces_metadata: bool
    output_rows: int | None


@dataclass(frozen=True, slots=True)
class LogFiles:
    """
    What one listing of a log found.

    :param commits: version → when its commit file was written, in milliseconds; ascending.
    :param checkpoints: versions with a checkpoint that is whole, ascending.
    """

    commits: Mapping[int, int]
    checkpoints: Sequence[int]

    def oldest_readable(self) -> int:
        """
        Return the oldest version that can be read: the first, or else the first checkpoint that the commits follow.

        :returns: the oldest commit, if none can be read.
        """
        oldest = min(self.commits, default=0)
        if oldest == 0:
            return 0
        return next((version for version in self.checkpoints if version >= oldest - 1), oldest)


class DeltaLog:
    """
    The commit files of one table.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._options = dict(storage_options or {})

    @cached_property
    def _files(self) -> arrow_fs.FileSystem:
        return arrow_fs.PyFileSystem(DeltaStorageHandler(self.location, self._options))

    def files(self) -> LogFiles:
        """List the log."""
        selector = arrow_fs.FileSelector("_delta_log", allow_not_found=True)
        with storage_errors(self.location):
            found = self._files.get_file_info(selector)
        commits: dict[int, int] = {}
        parts: Counter[tuple[int, int]] = Counter()
        for info in sorted(found, key=lambda info: str(info.path)):
            if name := _COMMIT_FILE.search(info.path):
                commits[int(name.group(1))] = (info.mtime_ns or 0) // 1_000_000
            elif name := _CHECKPOINT_FILE.search(info.path):
                parts[int(name.group(1)), int(name["parts"] or 1)] += 1
        whole = {version for (version, needed), there in parts.items() if there >= needed}
        return LogFiles(commits, sorted(whole))

    def versions(self) -> list[int]:
        """Return the versions whose commit file still exists, ascending; older ones were cleaned up."""
        return list(self.files().commits)

    def written(self, *versions: int) -> list[Written | None]:
        """Return what the commit files of some versions look like, ``None`` for each that does not exist."""
        with storage_errors(self.location):
            found = self._files.get_file_info([_path_of(version) for version in versions])
        return [None if info.type == arrow_fs.FileType.NotFound else (info.size, info.mtime_ns) for info in found]

    def commit(self, version: int) -> Commit | None:
        """Return one commit, or ``None`` if its file does not exist (any more, or yet)."""
        path = _path_of(version)
        with log_errors(self.location):
            try:
                with self._files.open_input_file(path) as file:
                    lines = file.read().decode("utf-8").split("\n")
            except FileNotFoundError:
                return None
            return _parse(version, (json.loads(line) for line in lines if line.strip()), self._modified(path))

    def schema(self, version: int) -> TableSchema | None:
        """Return the schema that a commit wrote down; ``None`` if it left it as it was, or is gone."""
        found = None
        with log_errors(self.location):
            try:
                with self._files.open_input_file(_path_of(version)) as file:
                    for line in BufferedReader(file):
                        # Wherever else the word is, the line is parsed for nothing.
                        if _METADATA in line and "metaData" in (action := json.loads(line)):
                            found = action["metaData"]
            except FileNotFoundError:
                return None
            return found and TableSchema.of(found["schemaString"], found.get("partitionColumns") or ())

    def written_at(self, version: int) -> dt.datetime | None:
        """
        Return when a commit says that it was written; ``None`` if it is gone, or is silent.

        A commit of very many files is read line by line, and its files are not looked at.
        """
        with log_errors(self.location):
            return _stated(self._info(version))

    def in_commit_timestamp(self, version: int) -> int | None:
        """Return the timestamp, in milliseconds, that a commit has on purpose; ``None`` if it has none, or is gone."""
        with log_errors(self.location):
            millis = self._info(version).get("inCommitTimestamp")
            return None if millis is None else int(str(millis))

    def _info(self, version: int) -> Mapping[str, object]:
        """Return what a commit says of itself; nothing if it is gone, or is silent."""
        try:
            with self._files.open_input_file(_path_of(version)) as file:
                for line in BufferedReader(file):
                    if line.startswith(_COMMIT_INFO):
                        return dict(json.loads(line)["commitInfo"])
        except FileNotFoundError:
            pass
        return {}

    def newest(self) -> TableVersion:
        """Return the table's newest version."""
        version = self.versions()[-1]
        return TableVersion(version=version, written_at=self.written_at(version))

    def transaction_version(self, transaction: str) -> int | None:
        """
        Return the newest version that the table has seen of an application's transaction, if any.

        The table knows of it also where the commit that made it was cleaned up.
        """
        with log_errors(self.location):
            table = DeltaTable(self.location, storage_options=self._options or None)
            return table.transaction_version(transaction)

    def _modified(self, path: str) -> dt.datetime:
        modified = self._files.get_file_info(path).mtime
        return (modified or dt.datetime.fromtimestamp(0, dt.UTC)).astimezone(dt.UTC)


def stamp_of(commit: Commit) -> dict[str, object]:
    """Return what a commit says of itself; nothing if it is not of this package."""
    try:
        stamp = json.loads(commit.user_metadata or "{}")
    except ValueError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _path_of(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


def _stated(info: Mapping[str, object]) -> dt.datetime | None:
    """Return when a commit says that it was written."""
    millis = info.get("inCommitTimestamp") or info.get("timestamp")
    return dt.datetime.fromtimestamp(int(str(millis)) / 1000, dt.UTC) if millis else None


def _parse(version: int, actions: Iterable[dict[str, dict[str, object]]], modified: dt.datetime) -> Commit:
    info: dict[str, object] = {}
    transactions: dict[str, int] = {}
    changes_data = replaces_metadata = False
    for action in actions:
        for kind, content in action.items():
            if kind == "commitInfo":
                info = content
            elif kind == "txn":
                transactions[str(content["appId"])] = int(str(content["version"]))
            elif kind == "metaData":
                replaces_metadata = True
            elif kind == "cdc" or (kind in {"add", "remove"} and content.get("dataChange", True)):
                changes_data = True
    metrics = info.get("operationMetrics")
    rows = metrics.get("numOutputRows") if isinstance(metrics, dict) else None
    metadata = info.get("userMetadata")
    return Commit(
        version=version,
        timestamp=_stated(info) or modified,
        operation=str(info.get("operation", "")),
        user_metadata=None if metadata is None else str(metadata),
        transactions=transactions,
        changes_data=changes_data,
        replaces_metadata=replaces_metadata,
        output_rows=None if rows is None else int(rows),
    )
