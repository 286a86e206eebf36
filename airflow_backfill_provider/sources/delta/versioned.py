"""What sources have in common whose offsets are the versions of one Delta table: its history and its changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream
from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.data_files import DataFiles
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.delta.description import DeltaDescription
from airflow_backfill_provider.sources.delta.history import DeltaHistory
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.sources.delta.watch import DeltaWatch
from airflow_backfill_provider.sources.watch import SourceWatch


class VersionedSource(Source):
    """
    A source whose history is that of a Delta table. What its rows are is for the subclass to say.

    :param history: the table's versions.
    """

    def __init__(self, history: DeltaHistory) -> None:
        self.history = history

    @property
    def location(self) -> str:
        """The table's path."""
        return self.history.path

    @property
    def log(self) -> DeltaLog:
        """The table's commits."""
        return self.history.log

    def latest(self) -> Offset:
        """
        Return the newest version.

        :raises UpstreamNotFoundError: if there is no Delta table.
        """
        return self.history.latest()

    def at(self, offset: Offset | None = None) -> DeltaDescription:
        """
        Describe one version, by default the newest.

        :raises UpstreamNotFoundError: if there is no readable Delta table or no such version.
        """
        return self.history.at(offset)

    def view_at(self, offset: Offset | None = None) -> UpstreamView | None:
        """Return the view and its job if the table is a materialized view; ``None`` if it is none."""
        return self.history.view_at(offset)

    def offset_of_version(self, version: int) -> Offset:
        """Return a version as an offset."""
        return offset_of(version)

    @property
    def offsets_are_shared(self) -> bool:
        """A version is the same for all jobs."""
        return True

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """Return the newest version committed at or before an instant; ``None`` if the log begins later."""
        return self.history.offset_at(instant)

    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return the commit timestamp of a version.

        :raises ChangeFeedGapError: if the version's commit file was cleaned up.
        """
        return self.history.watermark(offset)

    def committed_at(self, offset: Offset) -> dt.datetime | None:
        """Return the time in a version's commit file; ``None`` if the file was cleaned up."""
        return self.history.committed_at(offset)

    def point(self, offset: Offset) -> HistoryPoint:
        """Return a version with the time in its commit file as the mark."""
        return self.history.point(offset)

    def require_same_history(self, known: HistoryPoint) -> None:
        """
        Refuse a log that lacks a version that the job has reached, or has another commit there.

        :raises UpstreamReplacedError: with what differs.
        """
        self.history.require_same(known)

    def watch(self) -> SourceWatch:
        """Return a watch that checks two files of the log each time."""
        return DeltaWatch(self.history.path, self.history.storage_options, self.watermark)

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Return whether a version in ``(after, up_to]`` changed rows; compaction does not."""
        return self.history.has_changes(after, up_to)

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long the table keeps its changes, as of now; ``None`` if its properties cannot be read."""
        return self.history.changes_kept_for()

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """Return how long the changes that a job has not read yet are kept."""
        return self.history.change_feed(read_up_to, needed_after, created_on=created_on, reached=reached)

    def require_changes(self, after: Offset, up_to: Offset) -> None:
        """
        Refuse a window ``(after, up_to]`` with versions that the log no longer holds.

        :raises ChangeFeedGapError: with the first version that is gone.
        """
        self.history.require_changes(after, up_to)

    def require_kept_values(self, after: Offset, up_to: Offset, upstream: ResolvedUpstream) -> None:
        """
        Refuse a window ``(after, up_to]`` in which a rewrite gave rows other values of a used partition column.

        :raises ChangeFeedGapError: with the version.
        """
        self.history.require_kept_values(after, up_to, upstream)

    def row_count(self, offset: Offset) -> int:
        """Return the number of the table's rows at a version; an estimate where the log lacks counts."""
        return self.files_at(offset).live_rows().rows

    def files_at(self, offset: Offset) -> DataFiles:
        """Return the table's data files of a version."""
        return self.history.files_at(offset)

    def empty_is_null(self, offset: Offset) -> Sequence[str]:
        """Return the partition columns of a version of which Spark reads an empty value in the log as a value."""
        return self.history.empty_is_null(offset)
