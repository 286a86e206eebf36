"""
The versions of a Delta table: schema, times, changes, and how long these are kept, read from the table's log.

Injecting a barrier needs only the log. Reading it takes milliseconds and no JVM.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    StorageUnavailableError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.lake.log.commit_times import CommitTimes, RecordedSince
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.moved_values import CHAR
from airflow_backfill_provider.lake.log.retention import DELETED_FILES, LOG, changes_kept_for, unreadable
from airflow_backfill_provider.lake.log.same_log import ends_before, written_at_another_time
from airflow_backfill_provider.lake.log.schemas import TableSchema, char_length
from airflow_backfill_provider.lake.store.bucket_options import options_of
from airflow_backfill_provider.lake.store.storage import one_line, storage_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.table_properties import table_properties
from airflow_backfill_provider.lake.tables.view_feed import CHANGE_DATA_FEED
from airflow_backfill_provider.lake.tables.view_identity import upstream_view
from airflow_backfill_provider.sources.delta import windows
from airflow_backfill_provider.sources.delta.description import DeltaDescription
from airflow_backfill_provider.sources.delta.open_versions import OpenVersions
from airflow_backfill_provider.sources.delta.versions import offset_of, version_of
from airflow_backfill_provider.sources.description import other_table

_TWICE = re.compile(r"Duplicate field name \(case-insensitive\): '(?P<name>[^\n]*)'")
"""What Delta's kernel says of two columns whose names differ only in case."""


class DeltaHistory:
    """
    The versions of a Delta table, as its log has them. An offset is a version.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    :param name: the table's name in a catalog, for messages; empty if it is known by its location alone.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None, name: str = "") -> None:
        self.path = path
        self.storage_options = dict(storage_options or {})
        self._name = name
        self._log = DeltaLog(path, self.storage_options)
        self._versions = OpenVersions(self._log, lambda version: self._files_of(self._open(version)))

    @property
    def log(self) -> DeltaLog:
        """The table's commits."""
        return self._log

    # ------------------------------------------------------------------------------------------------- history

    def latest(self) -> Offset:
        """
        Return the newest version.

        :raises UpstreamNotFoundError: if there is no Delta table.
        """
        return offset_of(self._latest_version())

    def at(self, offset: Offset | None = None) -> DeltaDescription:
        """
        Describe one version, by default the newest.

        The version stays open, so that the next questions about its files don't read the log again.

        :raises UpstreamNotFoundError: if there is no readable Delta table or no such version.
        """
        table = self.opened(None if offset is None else version_of(offset))
        metadata, schema = table.metadata(), TableSchema.of(table.schema().to_json())
        return DeltaDescription(
            location=self.path,
            offset=offset_of(table.version()),
            table_id=str(metadata.id),
            types=schema.shown_types,
            required=schema.required,
            change_data_feed=metadata.configuration.get(CHANGE_DATA_FEED, "false").lower() == "true",
            physical_names=schema.physical_names,
            view=upstream_view(self.path, metadata.configuration),
        )

    def view_at(self, offset: Offset | None = None) -> UpstreamView | None:
        """
        Return the view and its job if the table is a materialized view as of a version; ``None`` if it is none.

        :raises UpstreamNotFoundError: as :meth:`at`.
        """
        if offset is None:
            # Of a missing or damaged table, the message is that of opening it.
            with suppress(DeltaError):
                return upstream_view(self.path, table_properties(self.path, self.storage_options))
        table = self.opened(None if offset is None else version_of(offset))
        return upstream_view(self.path, table.metadata().configuration)

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """
        Return the newest version committed at or before an instant, by Delta's rule for ``timestampAsOf``.

        :returns: ``None`` if the table's log begins later.
        """
        version = self._commit_times().version_at(instant)
        return None if version is None else offset_of(version)

    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return the commit timestamp of a version, by Delta's rule for ``timestampAsOf``.

        :raises ChangeFeedGapError: if the version's commit file was cleaned up.
        """
        version = version_of(offset)
        committed_at = self._commit_times().at(version)
        if committed_at is None:
            raise ChangeFeedGapError(
                f"the log of {self.path} no longer has version {version}, so the time of its commit is unknown; "
                "rebuild the job"
            )
        return committed_at

    def committed_at(self, offset: Offset) -> dt.datetime | None:
        """Return the time in a version's commit file; ``None`` if the file was cleaned up."""
        commit = self.log.commit(version_of(offset))
        return None if commit is None else commit.timestamp

    def point(self, offset: Offset) -> HistoryPoint:
        """Return a version with the time in its commit file as the mark."""
        written_at = self.log.written_at(version_of(offset))
        return HistoryPoint(offset=offset, mark=None if written_at is None else written_at.isoformat())

    def require_same(self, known: HistoryPoint) -> None:
        """
        Refuse a log that lacks a version that the job has reached, or has another commit there.

        :raises UpstreamReplacedError: with what differs.
        :raises UpstreamNotFoundError: if the table is gone.
        """
        ended = ends_before(self.path, self._latest_version(), version_of(known.offset))
        if difference := ended or written_at_another_time(self.log, version_of(known.offset), known.mark):
            raise UpstreamReplacedError(f"{difference}: rebuild the job")

    def _latest_version(self) -> int:
        # Opening the table is slower, because it reads the list of data files, but it has the better error messages.
        with suppress(TableNotFoundError, StorageUnavailableError):
            versions = self.log.versions()
            if versions:
                return versions[-1]
        return self._open(None).version()

    def _commit_times(self) -> CommitTimes:
        log = self.log
        files = log.files()
        newest = max(files.commits, default=None)
        # For most tables the newest commit is enough, and reading it is faster than opening the table.
        if newest is None or log.in_commit_timestamp(newest) is None:
            return CommitTimes(log, files, None)
        return CommitTimes(log, files, RecordedSince.of(self._open(None).metadata().configuration))

    # ------------------------------------------------------------------------------------------------- changes

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Return whether a version in ``(after, up_to]`` changed rows; compaction does not."""
        return windows.changes_data(self.log, version_of(after), version_of(up_to))

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long the table keeps its changes, as of now; ``None`` if its properties cannot be read."""
        return changes_kept_for(self._open(None).metadata().configuration)

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """
        Return how long the changes that a job has not read yet are kept; reads one or two commits.

        :param read_up_to: the version that the job's next epoch continues from; ``None`` if it needs no changes yet.
        :param needed_after: the version after which the job needs changes, if older than ``read_up_to``.
        :param created_on: the upstream as of the job's creation.
        :param reached: the version that the job has reached.
        :raises UpstreamNotFoundError: if there is no readable Delta table.
        """
        table, log = self._open(None), self.log
        latest, properties = table.version(), table.metadata().configuration
        known: dict[str, Any] = {
            "latest": offset_of(latest),
            "kept_for": changes_kept_for(properties),
            "kept_by": f"{DELETED_FILES}, {LOG}",
            "unreadable": unreadable(properties),
            "view": upstream_view(self.path, properties),
        }
        newest_read = max(reached.offset if reached else BEGINNING, read_up_to or BEGINNING)
        replaced = (
            (created_on and self._other_table(table, created_on))
            or ends_before(self.path, latest, version_of(newest_read))
            or (reached and written_at_another_time(log, version_of(reached.offset), reached.mark))
        )
        if read_up_to is None or replaced:
            # The changes of another table are not those that the job needs.
            return ChangeFeed(**known, replaced=replaced or "")
        read = version_of(read_up_to)
        after = read if needed_after is None else version_of(needed_after)
        # Both lookups below often read the same commit.
        commit_of = functools.cache(log.commit)
        oldest = commit_of(read + 1) if read < latest else None
        # A version that changed no row can be read even if its files are gone.
        needed = next(
            (
                (version, commit)
                for version in range(after + 1, min(after + windows.COMMITS_WORTH_READING, latest) + 1)
                if (commit := commit_of(version)) is None or commit.changes_data
            ),
            None,
        )
        return ChangeFeed(
            **known,
            unread_since=oldest.timestamp if oldest else None,
            needed=offset_of(needed[0]) if needed else None,
            needed_since=needed[1].timestamp if needed and needed[1] else None,
        )

    def _other_table(self, table: DeltaTable, created_on: ResolvedUpstream) -> str:
        metadata = table.metadata()
        view = upstream_view(self.path, metadata.configuration)
        return other_table(self.path, str(metadata.id), created_on.table_id, view)

    def require_changes(self, after: Offset, up_to: Offset) -> None:
        """
        Refuse a window ``(after, up_to]`` with versions that the log no longer holds.

        :raises ChangeFeedGapError: with the first version that is gone.
        """
        windows.require_changes(self.log, version_of(after), version_of(up_to))

    def require_kept_values(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(after, up_to]`` in which a rewrite gave rows other values of a used partition column.

        :raises ChangeFeedGapError: with the version.
        """
        used = {column.name: column for column in upstream.columns}
        partitioned = [used[name] for name in self.partitioned_by(up_to) if name in used]
        fields = json.loads(self.files_at(up_to).table.schema().to_json())["fields"]
        padded = {field["name"] for field in fields if char_length(field)}
        types = {
            column.physical_name or column.name: CHAR if column.name in padded else column.type
            for column in partitioned
        }
        windows.require_kept_values(self.log, (version_of(after), version_of(up_to)), types)

    def partitioned_by(self, offset: Offset) -> Sequence[str]:
        """Return the columns by which the table is partitioned as of a version."""
        return self.files_at(offset).table.metadata().partition_columns

    def schema_at(self, version: int) -> TableSchema:
        """Return the columns of a version."""
        table = self._open(version)
        return TableSchema.of(table.schema().to_json(), table.metadata().partition_columns)

    # --------------------------------------------------------------------------------------------------- files

    def files_at(self, offset: Offset) -> DataFiles:
        """Return the data files of a version."""
        return self._versions.files(version_of(offset))

    def empty_is_null(self, offset: Offset) -> Sequence[str]:
        """Return the partition columns of a version of which Spark reads an empty value in the log as a value."""
        types = TableSchema.of(self.files_at(offset).table.schema().to_json()).types
        return [name for name in self.partitioned_by(offset) if types[name] in {"string", "binary"}]

    def _files_of(self, table: DeltaTable) -> DataFiles:
        return DataFiles(table, self.path, self.storage_options)

    def opened(self, version: int | None) -> DeltaTable:
        """Return the table at a version, and keep it open as long as listings of the log have the same commit there."""
        return self._versions.as_listed(version).table

    def _open(self, version: int | None) -> DeltaTable:
        try:
            with storage_errors(self.path):
                return DeltaTable(
                    self.path, version=version, storage_options=options_of(self.path, self.storage_options)
                )
        except TableNotFoundError as error:
            begins = None if version is None else self._begins()
            if begins is not None and version is not None and version < begins:
                raise ChangeFeedGapError(
                    f"version {version} of {self.path} is gone: the log was cleaned up and begins with version "
                    f"{begins}. Rebuild the job, and run an epoch at least once per delta.logRetentionDuration"
                ) from error
            raise UpstreamNotFoundError(
                f"there is no Delta table at {self.path}; {self._where_to_look}, or create the table first"
            ) from error
        except (DeltaError, ValueError) as error:
            if twice := _TWICE.search(str(error)):
                raise UpstreamNotFoundError(
                    f"the Delta table at {self.path} has two columns {twice['name']} whose names differ only in case, "
                    "which Delta and Spark ignore; write the table anew with another name for one of them, also if the "
                    "query uses neither"
                ) from None
            at = "" if version is None else f" at version {version}"
            raise UpstreamNotFoundError(
                f"the Delta table at {self.path} cannot be read{at} ({one_line(error)}); "
                f"{self._where_to_look}, or restore the table"
            ) from None

    @property
    def _where_to_look(self) -> str:
        if not self._name:
            return "check upstream.path"
        return f"{self._name} lay there when the job was created: if that table was made anew, rebuild the job"

    def _begins(self) -> int | None:
        """Return the oldest version in the log; ``None`` if there is no log."""
        with suppress(TableNotFoundError, StorageUnavailableError):
            return min(self.log.versions(), default=None)
        return None
