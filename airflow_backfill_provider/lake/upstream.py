"""
The upstream as its Delta log shows it: versions, schema, change data feed, file statistics.

Everything that injecting a barrier needs to know about the upstream comes from here, in milliseconds and without a
JVM.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.columns import OF_CHANGE_FEED
from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    StorageUnavailableError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.file_statistics import FileStatistics
from airflow_backfill_provider.core.job import KeyColumn
from airflow_backfill_provider.core.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.query import quote
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.core.table_version import TableVersion
from airflow_backfill_provider.core.watchdog import ChangeFeed
from airflow_backfill_provider.lake.commit_times import CommitTimes, RecordedSince
from airflow_backfill_provider.lake.data_files import DataFiles
from airflow_backfill_provider.lake.delta_log import DeltaLog
from airflow_backfill_provider.lake.key_index import ArrowKeyIndex
from airflow_backfill_provider.lake.retention import changes_kept_for, unreadable
from airflow_backfill_provider.lake.same_log import ends_before, other_table, written_at_another_time
from airflow_backfill_provider.lake.schemas import TableSchema
from airflow_backfill_provider.lake.storage import one_line, storage_errors
from airflow_backfill_provider.lake.view_identity import unfinished_view
from airflow_backfill_provider.lake.window_changes import window_changes

CHANGE_DATA_FEED = "delta.enableChangeDataFeed"

_COMMITS_WORTH_READING = 50
_READERS = 8


@dataclass(frozen=True, slots=True)
class UpstreamVersion:
    """
    One version of the upstream.

    :param version: its number.
    :param table_id: the Delta table's id.
    :param types: column → type, as Delta writes it; nested types as JSON.
    :param change_data_feed: whether the table records its changes as of this version.
    :param physical_names: column → its name in the data files, where that is another one.
    :param unfinished: what to say of a materialized view that is not finished; empty of any other table.
    """

    version: int
    table_id: str
    types: Mapping[str, str]
    change_data_feed: bool
    physical_names: Mapping[str, str] = field(default_factory=dict)
    unfinished: str = ""

    def key_order(self, key: Iterable[KeyColumn]) -> KeyOrder:
        """Return the order of key columns, with the types that they have as of this version."""
        return KeyOrder(
            tuple(
                KeyField(name=column.column, type=self.types[column.column], descending=column.descending)
                for column in key
            )
        )

    def require_as_created(self, upstream: ResolvedUpstream, path: str) -> None:
        """
        Refuse another table, and a used column that is gone or changed its type.

        :raises UpstreamReplacedError: if the table's id differs.
        :raises UpstreamSchemaChangedError: naming the columns.
        :raises ChangeDataFeedDisabledError: if the feed is off as of this version.
        """
        self.require_same_table(upstream, path)
        problems = TableSchema(self.types, self.physical_names).differences_from(upstream)
        if problems:
            raise UpstreamSchemaChangedError(
                f"the schema of {path} changed under the job as of version {self.version}: {'; '.join(problems)}; "
                "adapt the job's query and rebuild it"
            )
        self.require_change_data_feed(path)

    def require_same_table(self, upstream: ResolvedUpstream, path: str) -> None:
        """
        Refuse another table than the one that the job was created on.

        :raises UpstreamReplacedError: if the table's id differs.
        """
        if other := other_table(path, self.table_id, upstream.table_id):
            raise UpstreamReplacedError(f"{other}; rebuild the job to backfill from the new table")

    def require_change_data_feed(self, path: str) -> None:
        """
        Refuse a table that does not record its changes, or of which they cannot be read.

        :raises ChangeDataFeedDisabledError: with the statement that switches the feed on.
        :raises UpstreamError: naming a column that is called like one of the feed's own.
        """
        if not self.change_data_feed:
            raise ChangeDataFeedDisabledError(
                f"{path} has no change data feed as of version {self.version}; switch it on with: "
                f"ALTER TABLE delta.{quote(path)} SET TBLPROPERTIES ({CHANGE_DATA_FEED} = true)"
            )
        for name in self.types:
            if name.lower() in OF_CHANGE_FEED:
                raise UpstreamError(
                    f"{path} has a column {name}, and Delta's change data feed adds one of that name itself, so that "
                    "nobody can read the table's changes; rename it, or remove it"
                )


class UpstreamTable:
    """
    Reads the upstream's log.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._options = dict(storage_options or {})
        self._described: DataFiles | None = None

    @property
    def log(self) -> DeltaLog:
        """The table's commits."""
        return DeltaLog(self.path, self._options)

    def latest_version(self) -> int:
        """
        Return the newest version's number.

        :raises UpstreamNotFoundError: if there is no Delta table.
        """
        # Opening the table reads which files it has, which takes longer the more there are; it says best what is wrong.
        with suppress(TableNotFoundError, StorageUnavailableError):
            versions = self.log.versions()
            if versions:
                return versions[-1]
        return self._open(None).version()

    def at(self, version: int | None = None) -> UpstreamVersion:
        """
        Describe one version, by default the newest, as it is now.

        It stays open, so that what is asked next about its files does not read the log again.

        :raises UpstreamNotFoundError: if there is no readable Delta table or no such version.
        """
        table = self._open(version)
        self._described = self._files_of(table)
        metadata, schema = table.metadata(), TableSchema.of(table.schema().to_json())
        return UpstreamVersion(
            version=table.version(),
            table_id=str(metadata.id),
            types=schema.types,
            change_data_feed=metadata.configuration.get(CHANGE_DATA_FEED, "false").lower() == "true",
            physical_names=schema.physical_names,
            unfinished=unfinished_view(self.path, metadata.configuration),
        )

    def version_at(self, instant: dt.datetime) -> int | None:
        """
        Return the newest version committed at or before an instant, as Delta finds it for ``timestampAsOf``.

        :returns: ``None`` if the table's log begins later.
        """
        return self._commit_times().version_at(instant)

    def watermark(self, version: int) -> dt.datetime:
        """
        Return the commit timestamp of a version, as Delta has it for ``timestampAsOf``.

        :raises ChangeFeedGapError: if the version's commit file was cleaned up.
        """
        committed_at = self._commit_times().at(version)
        if committed_at is None:
            raise ChangeFeedGapError(f"{self.path} has no commit file of version {version} any more; rebuild the job")
        return committed_at

    def _commit_times(self) -> CommitTimes:
        log = self.log
        files = log.files()
        newest = max(files.commits, default=None)
        # Opening the table takes longer than a look at its newest commit, which tells most tables' answer.
        if newest is None or log.in_commit_timestamp(newest) is None:
            return CommitTimes(log, files, None)
        return CommitTimes(log, files, RecordedSince.of(self._open(None).metadata().configuration))

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long the table keeps its changes, as of now; ``None`` if its properties don't say it readably."""
        return changes_kept_for(self._open(None).metadata().configuration)

    def change_feed(
        self,
        read_up_to: int | None,
        needed_after: int | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        come_to: TableVersion | None = None,
    ) -> ChangeFeed:
        """
        Tell how long the changes stay that a job has not read yet; reads a commit or two.

        :param read_up_to: the version that its next epoch goes on from; ``None`` if it needs no changes yet.
        :param needed_after: the version after which it needs the changes: an older one; by default that one.
        :param created_on: what the upstream was when the job was created.
        :param come_to: the version that the job has come to.
        :raises UpstreamNotFoundError: if there is no readable Delta table.
        """
        table, log = self._open(None), self.log
        latest, properties = table.version(), table.metadata().configuration
        known: dict[str, Any] = {
            "latest_version": latest,
            "kept_for": changes_kept_for(properties),
            "unreadable": unreadable(properties),
            "unfinished": unfinished_view(self.path, properties),
        }
        replaced = (
            (created_on and other_table(self.path, str(table.metadata().id), created_on.table_id))
            or ends_before(self.path, latest, max(come_to.version if come_to else -1, read_up_to or -1))
            or (come_to and written_at_another_time(log, come_to))
        )
        if read_up_to is None or replaced:
            # Of changes of another table nothing can be said.
            return ChangeFeed(**known, replaced=replaced or "")
        needed_after = read_up_to if needed_after is None else needed_after
        # Both look at the same commit, unless changes wait.
        commit_of = functools.cache(log.commit)
        oldest = commit_of(read_up_to + 1) if read_up_to < latest else None
        # A version that changed no row is passed without its files.
        needed = next(
            (
                (version, commit)
                for version in range(needed_after + 1, min(needed_after + _COMMITS_WORTH_READING, latest) + 1)
                if (commit := commit_of(version)) is None or commit.changes_data
            ),
            None,
        )
        return ChangeFeed(
            **known,
            unread_since=oldest.timestamp if oldest else None,
            needed_version=needed[0] if needed else None,
            needed_since=needed[1].timestamp if needed and needed[1] else None,
        )

    def require_changes(self, from_version: int, to_version: int) -> None:
        """
        Refuse a window ``(from_version, to_version]`` with versions that the log no longer holds.

        :raises ChangeFeedGapError: naming the versions that are gone.
        """
        if to_version <= from_version:
            return
        there = set(self.log.versions())
        gone = [version for version in range(from_version + 1, to_version + 1) if version not in there]
        if gone:
            oldest = min(there, default="none")
            lost = f"begins at version {oldest}" if gone[0] == from_version + 1 else f"lacks version {gone[0]}"
            raise ChangeFeedGapError(
                f"the job needs the changes of {self.path} from version {from_version + 1} on, but its log {lost}; "
                "they were cleaned up before an epoch read them. Rebuild the job, and run its epochs more often than "
                "delta.logRetentionDuration"
            )

    def require_same_log(self, known: TableVersion) -> None:
        """
        Refuse a log in which a version is another one than when the job came to it, or is not there yet.

        :raises UpstreamReplacedError: saying how that was seen.
        :raises UpstreamNotFoundError: if there is no table any more.
        """
        ended = ends_before(self.path, self.latest_version(), known.version)
        if another := ended or written_at_another_time(self.log, known):
            raise UpstreamReplacedError(f"{another}: rebuild the job")

    def require_used_columns(self, from_version: int, to_version: int, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(from_version, to_version]`` whose changes are not all of the used columns as they are now.

        The schema at both ends tells nothing of those in between: a column may have been replaced, and put back by a
        RESTORE. A column that was renamed meanwhile keeps its name in the data files, by which it is found.

        :raises UpstreamSchemaChangedError: naming the columns and the version.
        """
        described = [(version, schema) for version, schema in self._schemas(from_version, to_version) if schema]
        in_files = ResolvedUpstream(
            table_id=upstream.table_id,
            columns=tuple(
                UpstreamColumn(name=column.physical_name or column.name, type=column.type)
                for column in upstream.columns
            ),
        )
        used = {column.name for column in in_files.columns}
        for version, schema in described:
            if problems := schema.stored().differences_from(in_files):
                raise UpstreamSchemaChangedError(
                    f"the changes of {self.path} at version {version} are not of the columns that the job uses: "
                    f"{'; '.join(problems)}; rebuild the job"
                )
        partitions = [(version, schema.stored().partitioned_by & used) for version, schema in described]
        if not any(columns for _, columns in partitions):
            return
        before = frozenset(self._partition_columns(from_version)) & used if from_version >= 0 else frozenset(used)
        for version, columns in partitions:
            # Delta looks for the value of such a column beside the data file, where older files have none.
            if came := sorted(columns - before):
                raise UpstreamSchemaChangedError(
                    f"{self.path} is partitioned by {', '.join(came)} since version {version}, and Delta reads no "
                    "changes of that column from before; rebuild the job"
                )
            before = columns

    def _schemas(self, from_version: int, to_version: int) -> Iterable[tuple[int, TableSchema | None]]:
        """Yield the schemas that the commits of a window wrote down, ``None`` for one that wrote none."""
        log, versions = self.log, range(from_version + 1, to_version + 1)
        # Each waits for the storage, and windows may be long.
        with ThreadPoolExecutor(max_workers=_READERS) as readers:
            return zip(versions, readers.map(log.schema, versions), strict=True)

    def _partition_columns(self, version: int) -> Iterable[str]:
        table = self._open(version)
        return TableSchema.of(table.schema().to_json(), table.metadata().partition_columns).stored().partitioned_by

    def changes_data(self, from_version: int, to_version: int) -> bool:
        """Tell whether a version in ``(from_version, to_version]`` changed rows; compaction does not."""
        if to_version - from_version > _COMMITS_WORTH_READING:
            return True
        commits = (self.log.commit(version) for version in range(from_version + 1, to_version + 1))
        return any(commit is None or commit.changes_data for commit in commits)

    def row_count(self, version: int) -> int:
        """Return the number of rows at a version; an estimate where the log does not tell."""
        return self.files_at(version).live_rows().rows

    def window_changes(self, settings: JobSettings, from_version: int, to_version: int) -> pa.Table | None:
        """
        Return what became of each (vnode, key) of a job that changed in ``(from_version, to_version]``.

        See :func:`~airflow_backfill_provider.lake.window_changes.window_changes`.
        """
        return window_changes(self.files_at(to_version).table, settings, from_version)

    def files(self, version: int, order: KeyOrder) -> tuple[list[FileStatistics], ArrowKeyIndex]:
        """
        Return the data files of a version with bounds of their keys, and the means to read exact keys.

        :param version: the version that the chunk will be read at.
        :param order: the key's columns.
        """
        return self.files_at(version).statistics(order)

    def files_at(self, version: int) -> DataFiles:
        """Return the data files of a version."""
        if self._described is None or self._described.version != version:
            self._described = self._files_of(self._open(version))
        return self._described

    def _files_of(self, table: DeltaTable) -> DataFiles:
        return DataFiles(table, self.path, self._options)

    def _open(self, version: int | None) -> DeltaTable:
        try:
            with storage_errors(self.path):
                return DeltaTable(self.path, version=version, storage_options=self._options or None)
        except TableNotFoundError as error:
            begins = None if version is None else self._begins()
            if begins is not None and version is not None and version < begins:
                raise ChangeFeedGapError(
                    f"version {version} of {self.path} is gone: its log was cleaned up and begins with version "
                    f"{begins}. Rebuild the job, and run its epochs more often than delta.logRetentionDuration"
                ) from error
            raise UpstreamNotFoundError(
                f"there is no Delta table at {self.path}; check upstream.path, or create the table first"
            ) from error
        except (DeltaError, ValueError) as error:
            at = "" if version is None else f" at version {version}"
            raise UpstreamNotFoundError(
                f"the Delta table at {self.path} cannot be read{at}: {one_line(error)}"
            ) from None

    def _begins(self) -> int | None:
        """Return the oldest version that the log still has, if there is a log."""
        with suppress(TableNotFoundError, StorageUnavailableError):
            return min(self.log.versions(), default=None)
        return None
