"""A folder of files as a job's upstream, without a JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import UpstreamError, UpstreamNotFoundError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.description import UpstreamDescription
from airflow_backfill_provider.sources.files.counting import Inspected, inspect_file
from airflow_backfill_provider.sources.files.definition import FilesUpstream
from airflow_backfill_provider.sources.files.details import FileDetails
from airflow_backfill_provider.sources.files.listing import Folder, ListedFile
from airflow_backfill_provider.sources.files.moves import moved_from
from airflow_backfill_provider.sources.shared.file_log.definition import PLACE, SPLIT
from airflow_backfill_provider.sources.shared.file_log.entries import FilePart, FoundFile, PlacedFile
from airflow_backfill_provider.sources.shared.file_log.source import FileLogSource, NewFiles
from airflow_backfill_provider.sources.shared.file_log.table import FileLog, LogContent
from airflow_backfill_provider.sources.watch import SourceWatch

ASSUMED_BYTES = 100
"""The assumed size of a row, for estimates before files are read."""

_READERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderContent:
    """
    How a folder differs from the file log.

    :param unlogged: the files that the log does not have as they are.
    :param corrected: the files of the log that changed before any of their rows was read.
    :param gone: the files of the log that are not there.
    """

    unlogged: Sequence[ListedFile]
    corrected: Sequence[PlacedFile]
    gone: Sequence[PlacedFile]


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
        looked = self.look(content)
        found, amended = [], [placed.withdrawn() for placed in looked.corrected]
        gone = [*looked.gone]
        for file in self._inspected(looked.unlogged):
            moved = moved_from(file, gone, self._is_unread, self.location)
            if moved is not None:
                gone.remove(moved)
                # What was not read is read from where it is now, with the values of its folders.
                amended.append(moved.withdrawn() if self._is_unread(moved) else moved.at(file))
            if moved is None or self._is_unread(moved):
                found.append(file)
        return NewFiles(files=found, amended=amended)

    def look(self, content: LogContent) -> FolderContent:
        """
        Compare the folder with the log.

        :raises UpstreamError: if a file changed since it was added, and rows of it may have been read.
        """
        known = content.placed.by_path
        listed = self.folder.files()
        changed = [one for one in listed if one.path in known and not _is_same(known[one.path], one)]
        for file in changed:
            if not self._is_unread(known[file.path]):
                raise UpstreamError(self._changed(file.path))
        there = {file.path for file in listed}
        return FolderContent(
            unlogged=[*(file for file in listed if file.path not in known), *changed],
            corrected=[known[file.path] for file in changed],
            gone=[placed for path, placed in known.items() if path not in there],
        )

    def _is_unread(self, placed: PlacedFile) -> bool:
        if placed.file.rows == 0:
            return True
        return self.read is not None and placed.begin >= self.read.get(placed.split, 0)

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
            "the files that are left. A file of which no row was read may be put back with other rows, too"
        )

    def _changed(self, path: str) -> str:
        return (
            f"file {path} of {self.location} changed after it was added to the job's file log, and rows of it may be "
            "in the view, but a file is read once. Put new rows into new files; write a file under a name that begins "
            "with _ or ., and rename it when it is whole. Then rebuild the job, which reads all files as they are then"
        )

    def _inspected(self, listed: Sequence[ListedFile]) -> list[FoundFile]:
        with ThreadPoolExecutor(max_workers=_READERS) as readers:
            inspected = list(readers.map(self._inspect, listed))
        now = self.folder.listed([file.path for file in listed]) if listed else []
        # A file that is still being written is left for the next time.
        return [
            _found(file, found.rows, found.details)
            for file, found, same in zip(listed, inspected, now, strict=True)
            if found is not None and same == file
        ]

    def _inspect(self, listed: ListedFile) -> Inspected | None:
        try:
            return inspect_file(self.folder.storage, listed.path, self.upstream)
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
            count = len(self._source.look(content).unlogged)
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


def _found(listed: ListedFile, rows: int, details: FileDetails | None = None) -> FoundFile:
    return FoundFile(
        path=listed.path,
        size=listed.size,
        modified=listed.modified,
        rows=rows,
        added_at=listed.modified,
        details=details.to_text() if details else "",
    )


def _is_same(placed: PlacedFile, listed: ListedFile) -> bool:
    return (placed.file.size, placed.file.modified) == (listed.size, listed.modified)
