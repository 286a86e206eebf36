"""
Single commits of a Delta log.

The log says which transaction ids were committed with which metadata, which versions still exist, and when each was
written. ``DeltaTable.history`` leaves out transactions and does not find tables under a path with escaped characters,
so this module reads the commit files itself.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BufferedReader, BytesIO
from typing import Any

import pyarrow.fs as arrow_fs
from deltalake import DeltaTable

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.files.stored_files import stored_files
from airflow_backfill_provider.lake.log.checkpoints import checkpoints_in
from airflow_backfill_provider.lake.log.commit_contents import CONTENTS, LARGEST
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.log.written import Written
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.one_listing import forget, listed
from airflow_backfill_provider.lake.store.storage import log_errors, storage_errors

_COMMIT_INFO = b'{"commitInfo":'
_METADATA = b'"metaData"'
_DATA_CHANGE = b'"dataChange"'
_CHANGE_FILE = b'"cdc"'
_FILE_KINDS = {"add", "remove", "cdc"}
_COMMIT_FILE = re.compile(r"(?:^|/)(\d{20})\.json$")

_OF_A_PAGE = 1_000
"""How many files of a log an object store lists in one request."""

LogKey = tuple[str, tuple[tuple[str, str], ...]]
"""What identifies a log among all that a process reads: its location, and how its storage is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """
    One version of a Delta table.

    :param timestamp: when it was written; the in-commit timestamp if the table has them.
    :param operation: its name in the log, such as ``MERGE``.
    :param user_metadata: the writer's own text, if any.
    :param transactions: application transaction id → version that the commit recorded.
    :param changes_data: whether it added, removed or changed rows (compaction does not).
    :param replaces_metadata: whether it wrote schema, properties and table id again.
    :param removes_files: whether it removed a data file from the table (compaction does).
    """

    version: int
    timestamp: dt.datetime
    operation: str
    user_metadata: str | None
    transactions: Mapping[str, int]
    changes_data: bool
    replaces_metadata: bool
    removes_files: bool = False


@dataclass(frozen=True, slots=True)
class LogFiles:
    """
    The files of a log, from one listing.

    :param commits: version → when its commit file was written, in milliseconds; ascending.
    :param checkpoints: version with a complete checkpoint → the paths of its files; ascending.
    """

    commits: Mapping[int, int]
    checkpoints: Mapping[int, Sequence[str]]

    def oldest_readable(self) -> int:
        """
        Return the oldest version that can be read: version 0, or else the first checkpoint that the commits follow.

        :returns: the oldest commit, if no version can be read.
        """
        oldest = min(self.commits, default=0)
        if oldest == 0:
            return 0
        return next((version for version in self.checkpoints if version >= oldest - 1), oldest)

    def newest_checkpoint(self, version: int) -> tuple[int, Sequence[str]]:
        """
        Return the newest complete checkpoint at or before a version, and the paths of its files.

        :returns: version -1 and no files, if there is none.
        """
        newest = max((found for found in self.checkpoints if found <= version), default=-1)
        return newest, self.checkpoints.get(newest, ())


@dataclass(frozen=True, slots=True)
class _Listing:
    """
    What one listing of a log shows.

    :param written: what identifies each commit file.
    :param has_pages: whether the listing took several requests.
    """

    files: LogFiles
    written: Mapping[int, Written]
    has_pages: bool


class DeltaLog:
    """
    The commit files of one table.

    :param location: the table's canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._options = dict(storage_options or {})
        self.key: LogKey = (location, tuple(sorted(self._options.items())))
        self._listing = _Listing(LogFiles({}, {}), {}, has_pages=False)

    @cached_property
    def storage(self) -> arrow_fs.FileSystem:
        """File system rooted at the table."""
        return stored_files(self.location, self._options)

    def files(self) -> LogFiles:
        """List the log; see :mod:`.one_listing`."""
        self._listing = self._list() if is_local(self.location) else listed(self.key, self._list)
        return self._listing.files

    def written_to(self) -> None:
        """Note that this process may have written to the table, so that its log is listed again."""
        forget(self.key)

    def _list(self) -> _Listing:
        selector = arrow_fs.FileSelector("_delta_log", allow_not_found=True)
        with storage_errors(self.location):
            found = self.storage.get_file_info(selector)
        named = {str(info.path): info for info in found}
        commits = {int(name[1]): named[path] for path in sorted(named) if (name := _COMMIT_FILE.search(path))}
        times = {version: (info.mtime_ns or 0) // 1_000_000 for version, info in commits.items()}
        written = Written.listed(commits, max((info.mtime_ns or 0 for info in found), default=0))
        return _Listing(LogFiles(times, checkpoints_in(named)), written, len(found) > _OF_A_PAGE)

    def versions(self) -> list[int]:
        """Return the versions that still have a commit file, ascending; older ones were cleaned up."""
        return list(self.files().commits)

    def written(self, *versions: int) -> list[Written | None]:
        """
        Return what identifies the commit files of some versions, ``None`` for a missing one.

        In an object store, a listing of a log that is not long is one request, and each file would be two.
        """
        if not (is_local(self.location) or self._listing.has_pages):
            self.files()
            return [self._listing.written.get(version) for version in versions]
        with storage_errors(self.location):
            found = self.storage.get_file_info([commit_path(version) for version in versions])
        return [None if info.type == arrow_fs.FileType.NotFound else Written.alone(info) for info in found]

    def as_listed(self, version: int) -> Written | None:
        """Return what identifies a commit file as of the last listing; ``None`` if it was not there."""
        return self._listing.written.get(version)

    def newest_listed(self, version: int) -> tuple[int, Written] | None:
        """Return the newest version up to some other that the last listing showed, and what identifies it; if any."""
        newest = max((listed for listed in self._listing.written if listed <= version), default=None)
        return None if newest is None else (newest, self._listing.written[newest])

    def commit(self, version: int) -> Commit | None:
        """Return one commit, ``None`` if its file does not exist."""
        with log_errors(self.location):
            actions = self.actions(version)
            return None if actions is None else _parse(version, actions, lambda: self._modified(commit_path(version)))

    def actions(self, version: int) -> list[dict[str, dict[str, Any]]] | None:
        """Return the entries of one commit, each by its kind; ``None`` if its file does not exist."""
        with log_errors(self.location):
            try:
                return [json.loads(line) for line in self.lines(version) if line.strip()]
            except FileNotFoundError:
                return None

    def rewritten_files(self, version: int) -> list[tuple[str, dict[str, Any]]]:
        """
        Return the files of a commit that may have copied rows, each with its kind: add, remove, or cdc.

        :returns: nothing if the commit only appended or removed files, or is gone.
        """
        with log_errors(self.location):
            try:
                lines = list(self.lines(version))
            except FileNotFoundError:
                return []
            # The words may also occur elsewhere in a line, which costs only time. Most commits have no such line.
            if not any((_DATA_CHANGE in line and b"false" in line) or _CHANGE_FILE in line for line in lines):
                return []
            actions = (json.loads(line) for line in lines if line.strip())
            return [(kind, action[kind]) for action in actions for kind in _FILE_KINDS & action.keys()]

    def schema(self, version: int) -> TableSchema | None:
        """Return the schema that a commit wrote; ``None`` if it did not change the schema, or is gone."""
        found = None
        with log_errors(self.location):
            try:
                for line in self.lines(version):
                    # The word may also occur elsewhere in a line, so parse it to be sure.
                    if _METADATA in line and "metaData" in (action := json.loads(line)):
                        found = action["metaData"]
            except FileNotFoundError:
                return None
            return found and TableSchema.of(found["schemaString"], found.get("partitionColumns") or ())

    def written_at(self, version: int) -> dt.datetime | None:
        """
        Return the time that a commit records for itself; ``None`` if the commit is gone, or has none.

        The commit is read line by line, and its entries of files are not parsed: there may be very many.
        """
        with log_errors(self.location):
            return _recorded_time(self._info(version))

    def in_commit_timestamp(self, version: int) -> int | None:
        """Return a commit's in-commit timestamp in milliseconds; ``None`` if it has none, or is gone."""
        with log_errors(self.location):
            millis = self._info(version).get("inCommitTimestamp")
            return None if millis is None else int(str(millis))

    def _info(self, version: int) -> Mapping[str, object]:
        """Return the ``commitInfo`` of a commit; empty if the commit is gone, or has none."""
        try:
            for line in self.lines(version):
                if line.startswith(_COMMIT_INFO):
                    return dict(json.loads(line)["commitInfo"])
        except FileNotFoundError:
            pass
        return {}

    def lines(self, version: int) -> Iterator[bytes]:
        """
        Yield the lines of a commit file; a small one in an object store is read once, as long as listings show it.

        :raises FileNotFoundError: if it does not exist.
        """
        path, known = commit_path(version), self._listing.written.get(version)
        if is_local(self.location) or known is None or (known.size or 0) > LARGEST:
            with self.storage.open_input_file(path) as file:
                yield from BufferedReader(file)
            return
        commit = self.key, version, known
        yield from BytesIO(CONTENTS.of(commit, lambda: self.content(path)))

    def content(self, path: str) -> bytes:
        """
        Return the content of a file of the table.

        :param path: relative to the table.
        """
        with self.storage.open_input_file(path) as file:
            return bytes(file.read())

    def newest(self) -> TableVersion:
        """Return the table's newest version."""
        version = self.versions()[-1]
        return TableVersion(version=version, written_at=self.written_at(version))

    def transaction_version(self, transaction: str) -> int | None:
        """
        Return the newest version of an application's transaction that the table has recorded, if any.

        The table still has it after the commit that recorded it was cleaned up.
        """
        with log_errors(self.location):
            table = DeltaTable(self.location, storage_options=options_of(self.location, self._options))
            return table.transaction_version(transaction)

    def _modified(self, path: str) -> dt.datetime:
        modified = self.storage.get_file_info(path).mtime
        return (modified or dt.datetime.fromtimestamp(0, dt.UTC)).astimezone(dt.UTC)


def stamp_of(commit: Commit) -> dict[str, object]:
    """Return the stamp that this package writes as a commit's user metadata; empty for any other commit."""
    try:
        stamp = json.loads(commit.user_metadata or "{}")
    except ValueError:
        return {}
    return stamp if isinstance(stamp, dict) else {}


def changes_rows(kind: str, content: Mapping[str, object]) -> bool:
    """Return whether an entry of a commit adds, removes or changes rows; those of a compaction do not."""
    return kind == "cdc" or (kind in {"add", "remove"} and bool(content.get("dataChange", True)))


def commit_path(version: int) -> str:
    """Return the path of a commit's file in the table's folder."""
    return f"_delta_log/{version:020d}.json"


def _recorded_time(info: Mapping[str, object]) -> dt.datetime | None:
    """Return the time that a commit records for itself."""
    millis = info.get("inCommitTimestamp") or info.get("timestamp")
    return dt.datetime.fromtimestamp(int(str(millis)) / 1000, dt.UTC) if millis else None


def _parse(
    version: int, actions: Iterable[Mapping[str, Mapping[str, Any]]], modified: Callable[[], dt.datetime]
) -> Commit:
    info: Mapping[str, object] = {}
    transactions: dict[str, int] = {}
    changes_data = replaces_metadata = removes_files = False
    for action in actions:
        for kind, content in action.items():
            if kind == "commitInfo":
                info = content
            elif kind == "txn":
                transactions[str(content["appId"])] = int(str(content["version"]))
            elif kind == "metaData":
                replaces_metadata = True
            elif changes_rows(kind, content):
                changes_data = True
            removes_files |= kind == "remove"
    metadata = info.get("userMetadata")
    return Commit(
        version=version,
        timestamp=_recorded_time(info) or modified(),
        operation=str(info.get("operation", "")),
        user_metadata=None if metadata is None else str(metadata),
        transactions=transactions,
        changes_data=changes_data,
        replaces_metadata=replaces_metadata,
        removes_files=removes_files,
    )
