"""
An upstream without Spark: what the epoch protocol and the strategies ask an open source.

That is where the history ends, which columns it has there, how long changes are kept, and roughly where keys lie. The
rows and the changes themselves are for the :class:`~airflow_backfill_provider.sources.reader.SourceReader`. The rest of
an epoch is the same for all sources.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from airflow_backfill_provider.core.job.upstream_view import UpstreamView
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.sources.watch import SourceWatch

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
    from airflow_backfill_provider.core.status.change_feed import ChangeFeed
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.sources.numbered_files import NumberedFiles
    from airflow_backfill_provider.sources.present_rows import PresentRows
    from airflow_backfill_provider.sources.splits import Splits


class Source(ABC):
    """One upstream, opened without a JVM. Every method reads the upstream's current state."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The upstream's location, for messages; without secrets."""

    def as_created(self, upstream: ResolvedUpstream) -> Source:
        """
        Return the source for a job that was created on it, with what the job pinned.

        By default the same source: nothing is pinned.
        """
        del upstream
        return self

    def missing_rights(self) -> Sequence[str]:
        """
        Return what is missing, beyond reading, so that a job can be created, each with what to do.

        By default nothing.
        """
        return ()

    # ------------------------------------------------------------------------------------------------- history

    def begin(self, job: str) -> HistoryPoint | None:
        """
        Make what reading changes needs, unless it exists; creating a job calls it after the job was checked.

        :param job: the job's name.
        :returns: the point of the history after which changes are complete; by default ``None``: all of it.
        """
        del job
        return None

    def note_read(self, read: Mapping[int, int]) -> None:  # noqa: B027 - most need not know it
        """
        Note how far a job has read the splits, before it asks for what is newer.

        :param read: split → the place after the last row that was read.
        """

    def require_can_begin(self, job: str) -> None:  # noqa: B027 - most have nothing to make
        """
        Refuse what :meth:`begin` would refuse, as far as that can be known without writing anything.

        :param job: the job's name.
        :raises BackfillError: with what to do.
        """

    def has_begun(self, job: str) -> bool:
        """Return whether what :meth:`begin` makes exists; by default it makes nothing, so it does."""
        del job
        return True

    def undo_begin(self, job: str) -> bool:
        """
        Remove what :meth:`begin` made for a job that was not created after all; never what belongs to another job.

        :param job: the job's name.
        :returns: whether there was something to remove; by default not.
        """
        del job
        return False

    def refresh(self) -> None:  # noqa: B027 - most are read where they are
        """Make newer changes readable, as far as the upstream has any; each request for an epoch calls it first."""

    def restart(self) -> None:  # noqa: B027
        """
        Remove what the source keeps in the lake for one job alone, because the job is about to be rebuilt.

        If the rebuild then fails, the job's next epoch must refuse what is missing.
        """

    def end(self, job: str) -> None:  # noqa: B027
        """
        Remove what :meth:`begin` made outside of the lake, because a job needs no more changes; a no-op if it is gone.

        :param job: the job's name.
        """

    @abstractmethod
    def latest(self) -> Offset:
        """
        Return the newest offset.

        :raises UpstreamNotFoundError: if there is no upstream.
        """

    @abstractmethod
    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """
        Return the newest offset committed at or before an instant.

        :returns: ``None`` if the history begins later.
        """

    def followed_since(self, upstream: ResolvedUpstream, since: Offset = BEGINNING) -> Offset | None:
        """Return the oldest offset since which used columns can be read, not before another; ``None`` if none can."""
        del upstream, since
        return None

    def not_before(self, offset: Offset, reached: Offset) -> Offset:
        """
        Return an offset at an instant, so that no part of it lies before an offset that a job has reached.

        By default the same offset: one that lies before is before as a whole.
        """
        del reached
        return offset

    @abstractmethod
    def at(self, offset: Offset | None = None) -> UpstreamDescription:
        """
        Describe the upstream as of an offset, by default the newest.

        :raises UpstreamNotFoundError: if there is no readable upstream or no such offset.
        """

    def view_at(self, offset: Offset | None = None) -> UpstreamView | None:
        """
        Return the view and its job if the upstream is another job's materialized view; by default ``None``: it is none.

        :param offset: as of which offset; by default the newest.
        :raises UpstreamNotFoundError: if there is no readable upstream or no such offset.
        """
        del offset
        return None

    def offset_of_version(self, version: int) -> Offset | None:
        """Return a version of the view of :meth:`view_at` as an offset; ``None`` if offsets are no versions of it."""
        del version
        return None

    def table_at(self, offset: Offset) -> tuple[str, int] | None:
        """
        Return the Delta table and its version that have the upstream's rows as of an offset, row by row.

        :returns: ``None``, the default, if no table does.
        """
        del offset
        return None

    @property
    def offsets_are_shared(self) -> bool:
        """Whether an offset means the same for every job that reads the upstream; by default each has its own log."""
        return False

    @abstractmethod
    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return when an offset was committed.

        :param offset: an offset that :meth:`at` has described, never ``BEGINNING``.
        :raises ChangeFeedGapError: if the upstream no longer has that time.
        """

    def committed_at(self, offset: Offset) -> dt.datetime | None:
        """Return when an offset was committed; ``None`` if the upstream no longer has that time."""
        return self.watermark(offset)

    def point(self, offset: Offset) -> HistoryPoint:
        """Return an offset with a mark that identifies the history; by default without a mark."""
        return HistoryPoint(offset=offset)

    def require_same_history(self, known: HistoryPoint) -> None:  # noqa: B027 - not every source can tell
        """
        Refuse a history that lacks an offset that the job has reached, or has another commit there.

        :raises UpstreamReplacedError: with what differs.
        """

    @abstractmethod
    def watch(self) -> SourceWatch:
        """Return a watch that polls for new offsets, as cheaply as possible."""

    # ------------------------------------------------------------------------------------------------- changes

    @abstractmethod
    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """
        Return whether rows may have changed in ``(after, up_to]``; a compaction, for example, changes none.

        :param after: as for :meth:`SourceReader.changes`.
        """

    @abstractmethod
    def changes_kept_for(self) -> dt.timedelta | None:
        """
        Return how long changes are kept, as of now.

        A source that keeps them for ever returns a long time, such as ``timedelta(days=36500)``. Don't return
        ``timedelta.max``, because dates are added to it.

        :returns: ``None`` if that is not known. Then changes never wait for a later epoch.
        """

    @abstractmethod
    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """
        Return the changes that a job has not read, see
        :class:`~airflow_backfill_provider.core.status.change_feed.ChangeFeed`.

        It fills ``latest``, ``kept_for``, ``unread_since``, ``needed`` and ``needed_since``. If ``created_on`` or
        ``reached`` doesn't match, it sets ``replaced``, and leaves out what is unread and needed. It is called often,
        so it must be cheap.

        :param read_up_to: the offset that the job's next epoch continues from; ``None`` if it needs no changes yet,
            ``BEGINNING`` if the job's first epoch was given up.
        :param needed_after: the offset after which the job needs changes, if older than ``read_up_to``.
        :param created_on: the upstream as of the job's creation.
        :param reached: the point that the job has reached.
        :raises UpstreamNotFoundError: if there is no readable upstream.
        """

    def require_changes(self, after: Offset, up_to: Offset) -> None:  # noqa: B027 - some keep all of their history
        """
        Refuse a window ``(after, up_to]`` with changes that are gone.

        :raises ChangeFeedGapError: with what is gone.
        """

    def require_same_values(  # noqa: B027 - most log every change
        self, after: Offset, up_to: Offset, upstream: ResolvedUpstream
    ) -> None:
        """
        Refuse a window ``(after, up_to]`` in which values of a used column changed without changes of rows.

        Each request for a barrier asks, also if no row has changed.

        :raises UpstreamSchemaChangedError: with the columns.
        """

    def require_used_columns(  # noqa: B027 - some cannot change their columns
        self, after: Offset, up_to: Offset, upstream: ResolvedUpstream
    ) -> None:
        """
        Refuse a window ``(after, up_to]`` in which a used column was missing or had another type.

        :raises UpstreamSchemaChangedError: with the columns and the offset.
        """

    def require_kept_values(  # noqa: B027 - most record every change of a value
        self, after: Offset, up_to: Offset, upstream: ResolvedUpstream
    ) -> None:
        """
        Refuse a window ``(after, up_to]`` in which used values changed, and no change tells.

        :raises ChangeFeedGapError: with the offset.
        """

    @property
    def old_columns(self) -> frozenset[str] | None:
        """
        The columns of which changes have the values that a row had before; ``None`` for all.

        By default none, so that no shape relies on values that a source does not promise.
        """
        return frozenset()

    @property
    def may_be_cleared(self) -> bool:
        """Whether all rows may be removed at once, without changes that name them; see ``SourceReader.is_cleared``."""
        return False

    # ------------------------------------------------------------------------------------------- rows and keys

    @property
    def reads_whole(self) -> bool:
        """Whether reading any range of keys reads all of the upstream; by default not."""
        return False

    @abstractmethod
    def row_count(self, offset: Offset) -> int:
        """Return the number of rows as of an offset; an estimate for progress, never a bound."""

    @abstractmethod
    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """
        Return the blocks that store the rows as of an offset, with the bounds of their keys where known.

        Strategies plan chunks with them. They are hints, so a strategy that counts a chunk also checks that no row of
        the chunk is missing.

        :param order: the key's columns.
        """

    @abstractmethod
    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """
        Return the blocks with the number of rows that a job reads from each, and an index of exact keys.

        Rows of vnodes outside the job are left out as far as possible. The index is used where bounds are too coarse;
        ``lake/files/key_index.py`` has what an index over Arrow tables needs.
        """

    def largest_group(self, offset: Offset, columns: Sequence[str]) -> int | None:
        """Return the rows of the largest group by some columns, without Spark; ``None`` if that takes too long."""
        del offset, columns
        return None

    def rows_in(self, settings: JobSettings, offset: Offset, ranges: Sequence[KeyRange]) -> int | None:
        """
        Return how many of a job's rows lie in some ranges of keys as of an offset, without reading them on Spark.

        An epoch compares it with what it read, before it writes.

        :param ranges: ranges that do not overlap.
        :returns: ``None``, the default, if it cannot be known, or only by reading very many keys.
        """
        del settings, offset, ranges
        return None

    def window_changes(self, settings: JobSettings, after: Offset, up_to: Offset) -> pa.Table | None:
        """
        Return each (vnode, key) of a job that changed in ``(after, up_to]``, for planning.

        :returns: see :func:`~airflow_backfill_provider.lake.tables.window_changes.window_changes`; ``None``, the
            default, if only Spark can read them.
        """
        del settings, after, up_to
        return None

    @property
    def present(self) -> PresentRows | None:
        """How to read the rows as they are now; ``None``, the default, if they can be read as of any offset."""
        return None

    @property
    def splits(self) -> Splits | None:
        """The splits to which rows are appended; ``None``, the default, if rows may change."""
        return None

    @property
    def numbered_files(self) -> NumberedFiles | None:
        """The files in which the rows lie; ``None``, the default, if they cannot be read file by file."""
        return None

    @property
    def can_reread(self) -> bool:
        """
        Whether the rows as of an offset can be read again at any time, so that they can be counted again.

        By default, unless only present rows can be read.
        """
        return self.present is None

    # --------------------------------------------------------------------------------------------------- Spark

    @property
    def serves_several_epochs(self) -> bool:
        """
        Whether a process may keep the source open from epoch to epoch; by default it opens a new one for each.

        Only if all that the source keeps of the upstream belongs to an offset, so that it is never out of date.
        """
        return False
