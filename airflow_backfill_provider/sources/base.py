"""
The seam of sources: what an upstream is.

A kind of source defines the fields of a job's upstream, and opens it. The epoch protocol and the strategies ask an open
:class:`Source`, without a JVM, where the history ends, which columns it has there, how long changes are kept, and
roughly where keys lie. Its half on Spark, a :class:`SourceReader`, returns rows and changes. The rest of an epoch is
the same for all sources.

A kind's module imports deltalake, database drivers and Spark inside its methods, because a scheduler loads it for every
DAG.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import UpstreamReplacedError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.upstream import KeyColumn, UpstreamDefinition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
    from airflow_backfill_provider.core.watchdog import ChangeFeed

CHANGE_TYPE = "_change_type"
"""The column with the type of a change: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``."""

CHANGE_OFFSET = "_commit_version"
"""
The column with the offset of a change. Spark must order its type as offsets are ordered.

A number is a number, a text a string, and a sequence a struct with one field for each part; as ``literal`` of
``engine/job_rows.py`` writes it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamDescription:
    """
    An upstream as of one offset.

    :param location: the upstream's location, for messages.
    :param offset: the offset.
    :param table_id: the upstream's id; another upstream at the same location has another id. A fixed text if the
        upstream has no id; then a replacement is found only by :meth:`Source.point` and
        :meth:`Source.require_same_history`.
    :param types: column → Spark's JSON name of its type: ``long``, ``string``, ``decimal(20,2)``; nested types as JSON.
    :param physical_names: column → its name in storage, where that differs.
    :param unfinished: a message if the upstream is itself a job's view that is not finished; otherwise empty.
    """

    location: str
    offset: Offset
    table_id: str
    types: Mapping[str, str]
    physical_names: Mapping[str, str] = field(default_factory=dict)
    unfinished: str = ""

    def key_order(self, key: Iterable[KeyColumn]) -> KeyOrder:
        """Return the order of key columns, with their types as of this offset."""
        return KeyOrder(
            tuple(
                KeyField(name=column.column, type=self.types[column.column], descending=column.descending)
                for column in key
            )
        )

    def require_usable(self) -> None:
        """
        Refuse an upstream that no job can read.

        :raises UpstreamError: with what to do.
        """

    def require_as_created(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse an upstream that is not the one at the job's creation.

        Also refuse a used column that is gone or has another type.

        :raises UpstreamReplacedError: if the upstream's id differs.
        :raises UpstreamSchemaChangedError: with the columns.
        :raises UpstreamError: as :meth:`require_usable`.
        """
        self.require_same_table(upstream)
        problems = self.differences_from(upstream)
        if problems:
            raise UpstreamSchemaChangedError(
                f"the schema of {self.location} has changed since the job was created, as of version {self.offset}: "
                f"{'; '.join(problems)}; adapt the job's query and rebuild it"
            )
        self.require_usable()

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those at the job's creation."""
        found = []
        for column in upstream.columns:
            if column.name not in self.types:
                found.append(f"column {column.name} is gone")
            elif self.types[column.name] != column.type:
                found.append(f"column {column.name} was {column.type} and is {self.types[column.name]}")
        return found

    def require_same_table(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse an upstream that is not the one that the job was created on.

        :raises UpstreamReplacedError: if the upstream's id differs.
        """
        if other := other_table(self.location, self.table_id, upstream.table_id):
            raise UpstreamReplacedError(f"{other}; rebuild the job to backfill from the new table")


class SourceWatch(ABC):
    """Polls an upstream for new offsets, as cheaply as possible."""

    @abstractmethod
    def look(self) -> tuple[Offset | None, Hashable]:
        """
        Return the newest offset, and a value that changes if the upstream is recreated.

        :returns: ``None`` as the offset if there is no upstream.
        :raises StorageUnavailableError: if the storage does not answer.
        """


class SourceReader(ABC):
    """The half of a source on Spark."""

    @abstractmethod
    def rows(self, offset: Offset) -> DataFrame:
        """Return the rows as of an offset, with all columns; always the same rows."""

    @abstractmethod
    def empty(self) -> DataFrame:
        """Return all columns, without rows."""

    @abstractmethod
    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """
        Return the changes in ``(after, up_to]``; always the same changes.

        Return every change at the offset at which it happened. Don't net changes of different offsets: an epoch may
        apply only those after a later offset than ``after``.

        :param after: ``BEGINNING`` only under a strategy that takes all changes and starts at the beginning of the
            history; none of this package does.
        :returns: all columns, :data:`CHANGE_TYPE` and :data:`CHANGE_OFFSET`. An update is a preimage and a postimage.
        """


class Source(ABC):
    """One upstream, opened without a JVM. Every method reads the upstream's current state."""

    @property
    @abstractmethod
    def location(self) -> str:
        """The upstream's location, for messages; without secrets."""

    # ------------------------------------------------------------------------------------------------- history

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

    @abstractmethod
    def at(self, offset: Offset | None = None) -> UpstreamDescription:
        """
        Describe the upstream as of an offset, by default the newest.

        :raises UpstreamNotFoundError: if there is no readable upstream or no such offset.
        """

    @abstractmethod
    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return when an offset was committed.

        :param offset: an offset that :meth:`at` has described or :class:`SourceWatch` has found, never ``BEGINNING``.
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
        Return the changes that a job has not read, see :class:`~airflow_backfill_provider.core.watchdog.ChangeFeed`.

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

    def require_used_columns(  # noqa: B027 - some cannot change their columns
        self, after: Offset, up_to: Offset, upstream: ResolvedUpstream
    ) -> None:
        """
        Refuse a window ``(after, up_to]`` in which a used column was missing or had another type.

        :raises UpstreamSchemaChangedError: with the columns and the offset.
        """

    # ------------------------------------------------------------------------------------------- rows and keys

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
        ``lake/key_index.py`` has what an index over Arrow tables needs.
        """

    def window_changes(self, settings: JobSettings, after: Offset, up_to: Offset) -> pa.Table | None:
        """
        Return each (vnode, key) of a job that changed in ``(after, up_to]``, for planning.

        :returns: see :func:`~airflow_backfill_provider.lake.window_changes.window_changes`; ``None``, the default, if
            only Spark can read them.
        """
        del settings, after, up_to
        return None

    # --------------------------------------------------------------------------------------------------- Spark

    @abstractmethod
    def reader(self, spark: SparkSession) -> SourceReader:
        """Return the reader on Spark."""


class SourceKind(ABC):
    """A kind of source; one instance is registered."""

    name: ClassVar[str]
    """The kind's name in job definitions."""

    definition: ClassVar[type[UpstreamDefinition]]
    """The fields of a job's ``upstream`` of this kind."""

    @abstractmethod
    def open(self, upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> Source:
        """
        Open an upstream, without reading anything yet.

        :param upstream: of :attr:`definition`.
        :param storage_options: options of the object store, as deltalake takes them.
        """


def other_table(location: str, found: str, created_on: str) -> str:
    """Return a message if an upstream is not the one that the job was created on; otherwise an empty text."""
    return (
        "" if found == created_on else f"{location} holds table {found}, but the job was created on table {created_on}"
    )
