"""A folder of files as a job's upstream, without a JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.errors import UpstreamError, UpstreamNotFoundError
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.sources.base import SourceWatch
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.file_log.definition import PLACE, SPLIT
from airflow_backfill_provider.sources.file_log.entries import FilePart, FoundFile, PlacedFile
from airflow_backfill_provider.sources.file_log.source import FileLogSource, NewFiles
from airflow_backfill_provider.sources.file_log.table import FileLog, LogContent
from airflow_backfill_provider.sources.files import FilesUpstream
from airflow_backfill_provider.sources.files.counting import count_rows
from airflow_backfill_provider.sources.files.listing import Folder, ListedFile
from airflow_backfill_provider.sources.reader import SourceReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ASSUMED_BYTES = 100
"""The assumed size of a row, for estimates before files are read."""

_READERS = 8


class FilesSource(FileLogSource):
    """
    A folder of files, which are in the job's file log.

    :param upstream: the definition.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, upstream: FilesUpstream, storage_options: Mapping[str, str] | None = None) -> None:
        super().__init__(FileLog(upstream.file_log, (), storage_options))
        self.upstream = upstream
        self.folder = Folder(upstream.path, storage_options or {})

    @property
    def location(self) -> str:
        """The folder."""
        return self.upstream.path

    # --------------------------------------------------------------------------------------------- the file log

    def new_files(self, content: LogContent) -> NewFiles:
        """
        Return the files that the log does not have, with the numbers of their rows.

        :raises UpstreamError: if a file changed since it was added, or a new one cannot be read.
        """
        return NewFiles(files=self._counted(self.unlogged(content)))

    def unlogged(self, content: LogContent) -> list[ListedFile]:
        """
        Return the files that the log does not have.

        :raises UpstreamError: if a file changed since it was added.
        """
        known = content.placed.by_path
        unlogged = []
        for listed in self.folder.files():
            placed = known.get(listed.path)
            if placed is None:
                unlogged.append(listed)
            elif not _is_same(placed, listed):
                raise UpstreamError(self._changed(listed.path))
        return unlogged

    def estimated_files(self) -> Sequence[FoundFile]:
        """Return the files with numbers of rows by their sizes."""
        return [_found(listed, max(listed.size // ASSUMED_BYTES, 1)) for listed in self.folder.files()]

    def gone_among(self, parts: Sequence[FilePart]) -> Sequence[FilePart]:
        """Return the parts whose files are gone or have changed."""
        listed = self.folder.listed([part.placed.file.path for part in parts]) if parts else []
        return [
            part for part, found in zip(parts, listed, strict=True) if found is None or not _is_same(part.placed, found)
        ]

    def problem_with(self, gone: Sequence[FilePart]) -> str:
        """Return which file is gone or has changed, and what to do."""
        first = gone[0].placed.file.path
        if self.folder.listed([first])[0] is not None:
            return self._changed(first)
        return (
            f"file {first} of {self.location} is gone, and with it rows that the job has not read ({len(gone)} such "
            "files); put the same files back with their times of modification, or rebuild the job, which begins with "
            "the files that are left"
        )

    def _changed(self, path: str) -> str:
        return (
            f"file {path} of {self.location} changed after it was added to the job's file log, but a file is read "
            "once. Put new rows into new files; write a file under a name that begins with _ or ., and rename it when "
            "it is whole. Then rebuild the job, which reads all files as they are then"
        )

    def _counted(self, listed: Sequence[ListedFile]) -> list[FoundFile]:
        with ThreadPoolExecutor(max_workers=_READERS) as readers:
            counts = list(readers.map(self._count, listed))
        now = self.folder.listed([file.path for file in listed]) if listed else []
        # A file that is still being written is left for the next time.
        return [
            _found(file, count)
            for file, count, same in zip(listed, counts, now, strict=True)
            if count is not None and same == file
        ]

    def _count(self, listed: ListedFile) -> int | None:
        try:
            return count_rows(self.folder.storage, listed.path, self.upstream)
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------------------------------------------- history

    def at(self, offset: Offset | None = None) -> UpstreamDescription:
        """Describe the folder; its columns are those of the definition."""
        if offset is None:
            offset = self.latest()
        return UpstreamDescription(
            location=self.location,
            offset=offset,
            table_id=self.location,
            types={**self.upstream.column_types, SPLIT: "integer", PLACE: "long"},
        )

    def watch(self) -> SourceWatch:
        """Return a watch that lists the folder."""
        return FilesWatch(self)

    # --------------------------------------------------------------------------------------------------- Spark

    def reader(self, spark: SparkSession) -> SourceReader:
        """Return the reader of files."""
        from airflow_backfill_provider.sources.files.reader import FilesReader

        return FilesReader(spark, self)


class FilesWatch(SourceWatch):
    """Polls a folder by listing it."""

    def __init__(self, source: FilesSource) -> None:
        self._source = source
        self._newest: Offset | None = None
        self._seen_at: dt.datetime | None = None

    def look(self) -> tuple[Offset | None, Hashable]:
        """Return the offset after all files of the log; a later one if there are others, or some changed."""
        try:
            content = self._source.log.read()
            count = len(self._source.unlogged(content))
        except UpstreamNotFoundError:
            return None, None
        except UpstreamError:
            count = 1
        newest = self._source.latest()
        if count and content.exists and isinstance(newest.root, tuple):
            total, text = newest.root
            newest = Offset((int(total) + count, text))
        if newest != self._newest:
            self._newest, self._seen_at = newest, dt.datetime.now(dt.UTC)
        return newest, self._source.location

    def seen_at(self, offset: Offset) -> dt.datetime:
        """Return when the newest offset was found."""
        del offset
        return self._seen_at or dt.datetime.now(dt.UTC)


def _found(listed: ListedFile, rows: int) -> FoundFile:
    return FoundFile(path=listed.path, size=listed.size, modified=listed.modified, rows=rows, added_at=listed.modified)


def _is_same(placed: PlacedFile, listed: ListedFile) -> bool:
    return (placed.file.size, placed.file.modified) == (listed.size, listed.modified)
