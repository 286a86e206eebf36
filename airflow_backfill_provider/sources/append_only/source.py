"""A Delta table to which rows are only appended, as a job's upstream, without a JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as arrow_fs
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import log_state, partition_values
from airflow_backfill_provider.lake.log.same_log import ends_before, written_at_another_time
from airflow_backfill_provider.lake.store.storage import log_errors, storage_errors
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.sources.append_only.commits import WHAT_TO_DO, AppendedFiles
from airflow_backfill_provider.sources.append_only.definition import AppendOnlyUpstream
from airflow_backfill_provider.sources.append_only.description import AppendOnlyDescription
from airflow_backfill_provider.sources.append_only.verified_files import VerifiedFiles
from airflow_backfill_provider.sources.append_only.watch import AppendOnlyWatch
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart, FoundFile, instant_of
from airflow_backfill_provider.sources.shared.file_log.source import FileLogSource, NewFiles
from airflow_backfill_provider.sources.shared.file_log.table import FileLog, LogContent
from airflow_backfill_provider.sources.watch import SourceWatch

LISTED, LISTED_AT = "listed", "listed-at"
"""The marks of the file log: the version that it has all files of, and when this version was written."""


class AppendOnlySource(FileLogSource):
    """
    A Delta table. Its data files are in the job's file log.

    :param upstream: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, upstream: AppendOnlyUpstream, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(FileLog(upstream.file_log, (LISTED, LISTED_AT), storage_options))
        self.upstream = upstream
        self._options = dict(storage_options or {})
        self._table = DeltaHistory(upstream.path, storage_options, upstream.catalog_table)

    @property
    def location(self) -> str:
        """The table's path."""
        return self.upstream.path

    @cached_property
    def _log(self) -> DeltaLog:
        return self._table.log

    def view_at(self, offset: Offset | None = None) -> UpstreamView | None:
        """Return the view and its job if the table is a materialized view by now; offsets are those of the file log."""
        del offset
        return self._table.view_at()

    # --------------------------------------------------------------------------------------------- the file log

    def new_files(self, content: LogContent) -> NewFiles:
        """
        Return the files that commits appended since the log was written; at first, all files of the newest version.

        :raises UpstreamError: if a commit removes or changes rows.
        :raises UpstreamReplacedError: if the table is another one, or an older copy.
        :raises ChangeFeedGapError: if a commit is gone.
        """
        newest = self._version()
        if not content.exists:
            table = self._opened(newest)
            return NewFiles(files=self._files_of(table), marks=self._marks(newest))
        listed = content.marks[LISTED]
        if replaced := ends_before(self.location, newest, listed) or self._rewritten(content):
            raise UpstreamReplacedError(f"{replaced}: rebuild the job")
        if newest == listed:
            return NewFiles(marks=content.marks)
        appended = AppendedFiles(self._log, self._footer_rows).within(listed, newest)
        return NewFiles(files=appended, marks=self._marks(newest))

    def restart(self) -> None:
        """
        Delete the log, after a check that a new one can be made.

        :raises UpstreamError: if files have rows that are deleted.
        """
        self.estimated_files()
        super().restart()

    def estimated_files(self) -> Sequence[FoundFile]:
        """Return the files of the newest version."""
        return self._files_of(self._opened(self._version()))

    def gone_among(self, parts: Sequence[FilePart]) -> Sequence[FilePart]:
        """Return the parts whose files were compacted, and then removed by VACUUM."""
        active = self._active()
        compacted = [part for part in parts if part.placed.file.path not in active]
        if not compacted:
            return []
        with storage_errors(self.location):
            found = self._storage.get_file_info([part.placed.file.path for part in compacted])
        return [part for part, info in zip(compacted, found, strict=True) if info.type is arrow_fs.FileType.NotFound]

    def problem_with(self, gone: Sequence[FilePart]) -> str:
        """Return which file is gone, and what to do."""
        first = gone[0]
        return (
            f"data file {first.placed.file.path} of {self.location} is gone, and with it rows that the job has not "
            f"read ({len(gone)} such files): it was compacted, and VACUUM removed it. The rows are still in the table, "
            "so rebuild the job, which begins with the rows as they are then; let epochs read rows within "
            "delta.deletedFileRetentionDuration, or compact only after they did"
        )

    def _files_of(self, table: DeltaTable) -> list[FoundFile]:
        """Return the data files of a version, in the order in which they were written."""
        with log_errors(self.location):
            actions = pa.table(table.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        rows = DataFiles(table, self.location, self._options).rows_by_file()
        values = self._partition_values(table)
        found = []
        names = ("path", "size_bytes", "modification_time")
        for action in actions.select(names).to_pylist():
            path = unquote(action["path"])
            stored, live = rows[path]
            if stored != live:
                raise UpstreamError(
                    f"{self.location} has deletion vectors, so some rows of its files are deleted, but the job's "
                    f"upstream is append_only: run REORG TABLE … APPLY (PURGE) and create the job then, or {WHAT_TO_DO}"
                )
            found.append(
                FoundFile(
                    path=path,
                    size=action["size_bytes"],
                    modified=action["modification_time"],
                    rows=stored,
                    added_at=action["modification_time"],
                    details=json.dumps(values.get(path, {})),
                )
            )
        with_rows = [file for file in found if file.rows]
        return sorted(with_rows, key=lambda file: (file.modified, file.path))

    def _partition_values(self, table: DeltaTable) -> Mapping[str, Mapping[str, str | None]]:
        """
        Return path → the texts that the log has for the partition columns, as for files that are appended later.

        deltalake has values in their place, and a text of a value may be another one than the log's.
        """
        if not table.metadata().partition_columns:
            return {}
        with log_errors(self.location):
            entries = log_state(self._log, table.version()).files.values()
        return {unquote(entry["path"]): partition_values(entry) for entry in entries}

    def _marks(self, version: int) -> Mapping[str, int]:
        written = self._log.written_at(version)
        return {LISTED: version, LISTED_AT: 0 if written is None else round(written.timestamp() * 1000)}

    def _rewritten(self, content: LogContent) -> str:
        written = content.marks[LISTED_AT]
        known = instant_of(written).isoformat() if written else None
        return written_at_another_time(self._log, content.marks[LISTED], known)

    def _active(self) -> frozenset[str]:
        table = self._opened(self._version())
        with log_errors(self.location):
            paths = pa.table(table.get_add_actions(flatten=True)).column("path").to_pylist()
        return frozenset(map(unquote, paths))

    def _footer_rows(self, path: str) -> int:
        return self._files.footer_rows(path)

    # ------------------------------------------------------------------------------------------------- history

    def at(self, offset: Offset | None = None) -> AppendOnlyDescription:
        """
        Describe the table, with its newest columns.

        :raises UpstreamNotFoundError: if there is no readable Delta table.
        """
        described = self._table.at()
        return AppendOnlyDescription(
            location=self.location,
            offset=self.latest() if offset is None else offset,
            table_id=described.table_id,
            types=described.types,
            physical_names=described.physical_names,
            view=described.view,
            mapping=self._mapping,
        )

    def require_same_history(self, known: HistoryPoint) -> None:
        """
        Refuse another file log, and a table that was made anew or restored from an older copy.

        :raises UpstreamReplacedError: with what differs.
        """
        super().require_same_history(known)
        content = self.log.read()
        if content.exists and (
            replaced := ends_before(self.location, self._version(), content.marks[LISTED]) or self._rewritten(content)
        ):
            raise UpstreamReplacedError(f"{replaced}: rebuild the job")

    def watch(self) -> SourceWatch:
        """Return a watch that checks two files of the table's log, and looks closer if they changed."""
        return AppendOnlyWatch(self.location, self.log.location, self.newest, self._options)

    def require_used_columns(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a table in which a used column is gone or has another type.

        :raises UpstreamSchemaChangedError: with the columns.
        """
        del after
        self.at(up_to).require_as_created(upstream)

    # --------------------------------------------------------------------------------------------------- Spark

    @property
    def schema_json(self) -> str:
        """The table's newest schema, as Delta writes it."""
        return str(self._opened(self._version()).schema().to_json())

    @property
    def partition_columns(self) -> Sequence[str]:
        """The columns by which the table is partitioned."""
        return self._opened(self._version()).metadata().partition_columns

    @property
    def verified_files(self) -> VerifiedFiles:
        """Makes tables of chosen files, for verifications."""
        return VerifiedFiles(
            log=self._log, version=self._version(), file_log=self.upstream.file_log, storage_options=self._options
        )

    @property
    def _mapping(self) -> str:
        """The table's mode of mapping columns."""
        configuration = self._opened(self._version()).metadata().configuration
        return str(configuration.get("delta.columnMapping.mode", "none"))

    def _version(self) -> int:
        version = self._table.latest().number
        if version is None:
            raise UpstreamNotFoundError(f"there is no Delta table at {self.location}; check upstream.path")
        return version

    def _opened(self, version: int) -> DeltaTable:
        return self._table.files_at(Offset(version)).table

    @property
    def _files(self) -> DataFiles:
        return self._table.files_at(Offset(self._version()))

    @property
    def _storage(self) -> arrow_fs.FileSystem:
        return self._files.storage
