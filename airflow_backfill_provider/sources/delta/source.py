"""A Delta table as a job's upstream: its history, and where its rows and keys lie, read from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from deltalake.exceptions import DeltaError

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.lake.files.rows import largest_group
from airflow_backfill_provider.lake.tables.chunk_keys import JobVnodes, chunk_files
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.lake.tables.rows_in_ranges import RowsInRanges
from airflow_backfill_provider.lake.tables.window_changes import window_changes
from airflow_backfill_provider.sources.delta import windows
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.sources.delta.numbered_files import DeltaNumberedFiles
from airflow_backfill_provider.sources.delta.versioned import VersionedSource
from airflow_backfill_provider.sources.delta.versions import offset_of, version_of
from airflow_backfill_provider.sources.numbered_files import NumberedFiles

_COUNTED_ROWS = 5_000_000
"""The most rows whose groups are counted for a dry run; it takes about a second."""


class DeltaSource(VersionedSource):
    """
    A Delta table. An offset is a version.

    :param path: canonical location of the table.
    :param storage_options: options of the object store, as deltalake takes them.
    :param name: the table's name in a catalog, for messages; empty if it is known by its location alone.
    """

    def __init__(self, path: str, storage_options: Mapping[str, str] | None = None, name: str = "") -> None:
        super().__init__(DeltaHistory(path, storage_options, name))
        self._counted: tuple[DataFiles, str, RowsInRanges] | None = None

    @property
    def serves_several_epochs(self) -> bool:
        """It keeps versions, which never change."""
        return True

    def table_at(self, offset: Offset) -> tuple[str, int] | None:
        """Return the table itself; ``None`` before its first version."""
        return None if offset.number is None or offset.number < 0 else (self.location, version_of(offset))

    def require_used_columns(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(after, up_to]`` in which a used column was missing or had another type.

        :raises UpstreamSchemaChangedError: with the columns and the version.
        """
        window = version_of(after), version_of(up_to)
        windows.require_used_columns(self.log, self.history.schema_at, window, upstream)

    def followed_since(self, upstream: ResolvedUpstream, since: Offset = BEGINNING) -> Offset:
        """Return the oldest version since which no file is gone, the feed is on, and the used columns are the same."""
        return offset_of(windows.followed_since(self.log, version_of(self.latest()), upstream, version_of(since)))

    @property
    def old_columns(self) -> None:
        """All columns: the change data feed has whole rows."""
        return

    # ------------------------------------------------------------------------------------------- rows and keys

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return the data files of a version, with the bounds of their keys."""
        return self.files_at(offset).files(order)

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return the data files with the number of rows that a job reads from each, and an index of exact keys."""
        vnodes = JobVnodes.of(settings.definition, settings.types)
        return chunk_files(self.files_at(offset), settings.key_order, vnodes)

    def largest_group(self, offset: Offset, columns: Sequence[str]) -> int | None:
        """Count the groups of a table that is small enough; ``None`` for others, and if deltalake cannot read it."""
        if not columns or self.row_count(offset) > _COUNTED_ROWS:
            return None
        try:
            return largest_group(self.files_at(offset).table, columns)
        except (DeltaError, ValueError, OSError, pa.ArrowException):
            return None

    def rows_in(self, settings: JobSettings, offset: Offset, ranges: Sequence[KeyRange]) -> int | None:
        """Return how many rows lie in some ranges, by the log and the keys of the files that the ranges cut."""
        files = self.files_at(offset)
        known = self._counted
        if known is None or known[:2] != (files, settings.incarnation):
            vnodes = JobVnodes.of(settings.definition, settings.types)
            known = self._counted = files, settings.incarnation, RowsInRanges(files, settings.key_order, vnodes)
        return known[2].count(ranges)

    def window_changes(self, settings: JobSettings, after: Offset, up_to: Offset) -> pa.Table | None:
        """
        Return each (vnode, key) of a job that changed in ``(after, up_to]``.

        See :func:`~airflow_backfill_provider.lake.tables.window_changes.window_changes`.
        """
        return window_changes(self.files_at(up_to).table, settings, version_of(after))

    @property
    def numbered_files(self) -> NumberedFiles | None:
        """The table's files."""
        return DeltaNumberedFiles(self.history)
