"""What sources have in common whose files are added to a file log; without a JVM."""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    ConcurrentUpdateError,
    StateError,
    UpstreamError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.shared.file_log.entries import (
    FilePart,
    FoundFile,
    PlacedFile,
    PlacedFiles,
    instant_of,
)
from airflow_backfill_provider.sources.shared.file_log.splits import FileSplits
from airflow_backfill_provider.sources.shared.file_log.table import FileLog, LogContent
from airflow_backfill_provider.sources.shared.no_keys import NoKeys
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window

_ATTEMPTS = 10
"""How often to look again after another process added files at the same moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiles:
    """
    What an upstream has that its file log does not.

    :param files: the files, in a stable order.
    :param marks: what the source wants to have recorded beside them.
    :param amended: entries of the log that are to change: of files that were moved, or withdrawn before they were read.
    """

    files: Sequence[FoundFile] = ()
    marks: Mapping[str, int] = field(default_factory=dict)
    amended: Sequence[PlacedFile] = ()


class FileLogSource(Source):
    """
    An upstream of files. An offset has the place after the last row of each split.

    :param log: the job's file log.
    """

    def __init__(self, log: FileLog) -> None:
        self.log = log
        self.read: Mapping[int, int] | None = None
        """Split → the place after the last row that the job has read, if it is known."""

    @abstractmethod
    def new_files(self, content: LogContent) -> NewFiles:
        """
        Return what the upstream has and the log does not; the same for the same upstream and log.

        :raises UpstreamError: if files that the log has were changed, or the upstream is another one.
        """

    @abstractmethod
    def estimated_files(self) -> Sequence[FoundFile]:
        """Return the upstream's files before there is a log; their numbers of rows may be estimates."""

    @abstractmethod
    def gone_among(self, parts: Sequence[FilePart]) -> Sequence[FilePart]:
        """Return those of some parts whose files can no longer be read as they were when they were added."""

    @abstractmethod
    def problem_with(self, gone: Sequence[FilePart]) -> str:
        """Return what to say if an epoch needs such files."""

    @property
    def placed(self) -> PlacedFiles:
        """The files of the log; before there is one, those that it will have, with estimated places."""
        content = self.log.read()
        return content.placed if content.exists else self._estimated

    @cached_property
    def _estimated(self) -> PlacedFiles:
        return PlacedFiles(PlacedFiles().and_then(self.estimated_files()))

    # ------------------------------------------------------------------------------------------------- history

    def restart(self) -> None:
        """Delete the log: a rebuilt job begins with the files as they are then."""
        self.log.drop()

    def note_read(self, read: Mapping[int, int]) -> None:
        """Note how far the job has read the splits: files of which nothing was read may still be corrected."""
        self.read = read

    def refresh(self) -> None:
        """
        Add the upstream's new files to the log.

        :raises UpstreamError: as :meth:`new_files`.
        """
        for attempt in range(_ATTEMPTS):
            content = self.log.read()
            found = self.new_files(content)
            is_known = (
                content.exists and not (found.files or found.amended) and dict(found.marks) == dict(content.marks)
            )
            try:
                if not is_known:
                    self.log.add(content, found.files, found.marks, found.amended)
                    self.log.tidy()
            except ConcurrentUpdateError:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return

    def latest(self) -> Offset:
        """Return the ends of the splits, with the files of the log."""
        return offset_of(self.placed.ends)

    def newest(self) -> Offset:
        """
        Return the ends of the splits, with the files that the next epoch will add to the log.

        If the upstream is to be refused, return a later offset than any known, so that an epoch refuses it.
        """
        content = self.log.read()
        if not content.exists:
            return offset_of(self._estimated.ends)
        try:
            found = self.new_files(content)
        except UpstreamError:
            ends = content.placed.ends
            return offset_of({**ends, 0: ends[0] + 1})
        return offset_of(content.placed.with_more(found.files).ends)

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """Return the ends of the splits before the first file that was added after an instant."""
        ends = self.placed.ends_at(instant)
        return None if ends is None else offset_of(ends)

    def watermark(self, offset: Offset) -> dt.datetime:
        """Return when the newest of the files up to an offset was added; the present time if there is none."""
        return self.placed.newest_time(ends_of(offset)) or dt.datetime.now(dt.UTC)

    def point(self, offset: Offset) -> HistoryPoint:
        """Return an offset with the log's id as the mark."""
        return HistoryPoint(offset=offset, mark=self.log.read().log_id or None)

    def require_same_history(self, known: HistoryPoint) -> None:
        """
        Refuse a file log that is not the one that the job has read, because another one gives rows other places.

        :raises UpstreamReplacedError: with what differs.
        """
        if difference := self._difference(known):
            raise UpstreamReplacedError(f"{difference}: rebuild the job")

    def _difference(self, known: HistoryPoint) -> str:
        if known.mark is None:
            return ""
        content = self.log.read()
        if content.log_id != known.mark:
            return f"the file log at {self.log.location} is gone, or was made anew"
        ends = content.placed.ends
        if any(end > ends.get(split, 0) for split, end in ends_of(known.offset).items()):
            return f"the file log at {self.log.location} lacks files that the job has read; it was restored from a copy"
        return ""

    # ------------------------------------------------------------------------------------------------- changes

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Return whether rows were added in ``(after, up_to]``."""
        return any(places.size for places in window(after, up_to))

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return ``None``: files stay until somebody removes them."""
        return None

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """Return what the job lacks, and whether the files are still those that it has read."""
        del needed_after, created_on
        replaced = self._difference(reached) if reached is not None else ""
        content = self.log.read()
        known = content.placed if content.exists else self._estimated
        if not replaced and content.exists:
            try:
                found = self.new_files(content).files
            except UpstreamError as refused:
                replaced = str(refused)
            else:
                known = known.with_more(found)
        unread = None
        if not replaced and read_up_to is not None:
            ends = ends_of(read_up_to)
            times = [one.file.added_at for one in known.files if one.end > ends.get(one.split, 0)]
            unread = instant_of(min(times)) if times else None
        return ChangeFeed(
            latest=offset_of(known.ends), kept_for=None, unread_since=unread, replaced=replaced, view=self.view_at()
        )

    def require_changes(self, after: Offset, up_to: Offset) -> None:
        """
        Refuse a window ``(after, up_to]`` with rows whose files are gone or changed.

        :raises ChangeFeedGapError: with the files.
        """
        self.splits.require_kept([places for places in window(after, up_to) if places.size])

    @property
    def old_columns(self) -> None:
        """All columns: rows never change."""
        return

    # ------------------------------------------------------------------------------------------- rows and keys

    @property
    def splits(self) -> FileSplits:
        """The splits of the log."""
        placed = self.placed
        return FileSplits(lambda ranges: self.gone_among(placed.parts(ranges)), self.problem_with, placed.missing_in)

    @property
    def can_reread(self) -> bool:
        """Whether rows can be read again at any time: no, files are removed once they were read."""
        return False

    def row_count(self, offset: Offset) -> int:
        """Return the number of rows up to an offset."""
        return sum(part.end - part.begin for part in self.parts_up_to(offset))

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return the files with rows up to an offset."""
        del order
        return [
            FileStatistics(
                path=part.placed.file.path,
                row_count=part.end - part.begin,
                size=part.placed.file.size,
                lower=(part.placed.split, part.begin),
                upper=(part.placed.split, part.end - 1),
            )
            for part in self.parts_up_to(offset)
        ]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return the files with rows up to an offset."""
        return self.blocks(offset, settings.key_order), NoKeys()

    def parts_up_to(self, offset: Offset) -> list[FilePart]:
        """Return what files have of the rows up to an offset."""
        return self.placed.parts(window(BEGINNING, offset))

    def parts(self, ranges: Sequence[SplitRange]) -> list[FilePart]:
        """
        Return what files have of some places.

        :raises StateError: if the log lacks some of them.
        """
        found = self.placed.parts(ranges)
        expected = sum(places.size - self.placed.missing_in(places) for places in ranges)
        if sum(part.end - part.begin for part in found) != expected:
            raise StateError(
                f"the file log at {self.log.location} lacks files that an epoch reads; restore it from a copy, or "
                "rebuild the job"
            )
        return found
