"""
The seam of sources: what an upstream is.

A kind of source says what a job's definition holds of its upstreams, and opens one of them. An open
:class:`Source` answers all that the epoch protocol and the strategies ask without a JVM: where its history ends, what
its rows look like there, how long its changes stay, and roughly where its keys lie. Its half on Spark, a
:class:`SourceReader`, gives rows and changes. Everything else about an epoch is the same for all.

A kind's own module imports deltalake, database drivers and Spark inside of its methods: whoever defines a job loads it,
and a scheduler does so for every DAG.
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
"""The column of a change's kind: ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``."""

CHANGE_OFFSET = "_commit_version"
"""The column of a change's offset, in a type that Spark orders as offsets are ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamDescription:
    """
    An upstream as of one offset.

    :param location: where it lies, for messages.
    :param offset: the offset.
    :param table_id: what it is identified by; another one at the same location has another id.
    :param types: column → type, as Delta writes it; nested types as JSON.
    :param physical_names: column → its name in storage, where that is another one.
    :param unfinished: what to say of a materialized view that is not finished; empty of any other upstream.
    """

    location: str
    offset: Offset
    table_id: str
    types: Mapping[str, str]
    physical_names: Mapping[str, str] = field(default_factory=dict)
    unfinished: str = ""

    def key_order(self, key: Iterable[KeyColumn]) -> KeyOrder:
        """Return the order of key columns, with the types that they have as of this offset."""
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
        Refuse another upstream, and a used column that is gone or changed its type.

        :raises UpstreamReplacedError: if the upstream's id differs.
        :raises UpstreamSchemaChangedError: naming the columns.
        :raises UpstreamError: as :meth:`require_usable`.
        """
        self.require_same_table(upstream)
        problems = self.differences_from(upstream)
        if problems:
            raise UpstreamSchemaChangedError(
                f"the schema of {self.location} changed under the job as of version {self.offset}: "
                f"{'; '.join(problems)}; adapt the job's query and rebuild it"
            )
        self.require_usable()

    def differences_from(self, upstream: ResolvedUpstream) -> list[str]:
        """Return how the used columns differ from those of the job's creation."""
        found = []
        for column in upstream.columns:
            if column.name not in self.types:
                found.append(f"column {column.name} is gone")
            elif self.types[column.name] != column.type:
                found.append(f"column {column.name} was {column.type} and is {self.types[column.name]}")
        return found

    def require_same_table(self, upstream: ResolvedUpstream) -> None:
        """
        Refuse another upstream than the one that the job was created on.

        :raises UpstreamReplacedError: if the upstream's id differs.
        """
        if other := other_table(self.location, self.table_id, upstream.table_id):
            raise UpstreamReplacedError(f"{other}; rebuild the job to backfill from the new table")


class SourceWatch(ABC):
    """Looks at an upstream again and again, at the lowest price."""

    @abstractmethod
    def look(self) -> tuple[Offset | None, Hashable]:
        """
        Return the newest offset, and what changes if the upstream is made anew.

        :returns: no offset if there is no upstream.
        :raises StorageUnavailableError: if it does not answer.
        """


class SourceReader(ABC):
    """The half of a source on Spark."""

    @abstractmethod
    def rows(self, offset: Offset) -> DataFrame:
        """Return all columns of the rows as of an offset; the same rows at any time."""

    @abstractmethod
    def empty(self) -> DataFrame:
        """Return all columns, without a row."""

    @abstractmethod
    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """
        Return what changed in ``(after, up_to]``; the same changes at any time.

        :returns: all columns, :data:`CHANGE_TYPE` and :data:`CHANGE_OFFSET`. An update is a preimage and a postimage.
        """


class Source(ABC):
    """One upstream, opened without a JVM. Every method looks at the upstream as it is at that moment."""

    @property
    @abstractmethod
    def location(self) -> str:
        """Where it lies, for messages; without secrets."""

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

        :raises UpstreamNotFoundError: if there is no readable upstream, or no such offset.
        """

    @abstractmethod
    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return when an offset was committed.

        :raises ChangeFeedGapError: if that is gone.
        """

    def committed_at(self, offset: Offset) -> dt.datetime | None:
        """Return when an offset was committed; ``None`` if that is gone."""
        return self.watermark(offset)

    def point(self, offset: Offset) -> HistoryPoint:
        """Return an offset with what tells that the history is still the same one; by default nothing does."""
        return HistoryPoint(offset=offset)

    def require_same_history(self, known: HistoryPoint) -> None:  # noqa: B027 - not every source can tell
        """
        Refuse a history in which an offset is another one than when the job came to it, or is not there yet.

        :raises UpstreamReplacedError: saying how that was seen.
        """

    @abstractmethod
    def watch(self) -> SourceWatch:
        """Return what looks for new offsets at the lowest price."""

    # ------------------------------------------------------------------------------------------------- changes

    @abstractmethod
    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Tell whether rows may have changed in ``(after, up_to]``; compaction changes none."""

    @abstractmethod
    def changes_kept_for(self) -> dt.timedelta | None:
        """Return how long changes stay readable, as of now; ``None`` if that is not known."""

    @abstractmethod
    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        come_to: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """
        Tell how long the changes stay that a job has not read yet, at a low price.

        :param read_up_to: the offset that its next epoch goes on from; ``None`` if it needs no changes yet.
        :param needed_after: the offset after which it needs the changes: an older one; by default that one.
        :param created_on: what the upstream was when the job was created.
        :param come_to: the point that the job has come to.
        :raises UpstreamNotFoundError: if there is no readable upstream.
        """

    def require_changes(self, after: Offset, up_to: Offset) -> None:  # noqa: B027 - some keep all of their history
        """
        Refuse a window ``(after, up_to]`` of changes that are gone.

        :raises ChangeFeedGapError: naming what is gone.
        """

    def require_used_columns(  # noqa: B027 - some cannot change their columns
        self, after: Offset, up_to: Offset, upstream: ResolvedUpstream
    ) -> None:
        """
        Refuse a window ``(after, up_to]`` whose changes are not all of the used columns as they are now.

        :raises UpstreamSchemaChangedError: naming the columns and the offset.
        """

    # ------------------------------------------------------------------------------------------- rows and keys

    @abstractmethod
    def row_count(self, offset: Offset) -> int:
        """Return the number of rows as of an offset; an estimate for progress, never a bound."""

    @abstractmethod
    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """
        Return the blocks that the rows are stored in as of an offset, with bounds of their keys where these are known.

        Chunks are planned with them. They are hints: where a chunk is counted, it is checked whether it
        has all of its rows.

        :param order: the key's columns.
        """

    @abstractmethod
    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """
        Return the blocks with the rows that a chunk of a job finds in them, and the means to read exact keys.

        Rows of vnodes that the job is not about are left out as far as that can be known. Exact keys decide where
        bounds are too coarse.
        """

    def window_changes(self, settings: JobSettings, after: Offset, up_to: Offset) -> pa.Table | None:
        """
        Return which (vnode, key) of a job changed in ``(after, up_to]``, for a planner.

        :returns: see :func:`~airflow_backfill_provider.lake.window_changes.window_changes`; by default ``None``, for
            Spark alone can tell.
        """
        del settings, after, up_to
        return None

    # --------------------------------------------------------------------------------------------------- Spark

    @abstractmethod
    def reader(self, spark: SparkSession) -> SourceReader:
        """Return its half on Spark."""


class SourceKind(ABC):
    """A kind of source, as it is registered."""

    name: ClassVar[str]
    """What it is called in job definitions."""

    definition: ClassVar[type[UpstreamDefinition]]
    """What a job says of an upstream of this kind."""

    @abstractmethod
    def open(self, upstream: UpstreamDefinition, storage_options: Mapping[str, str] | None = None) -> Source:
        """
        Open an upstream; looks at nothing yet.

        :param upstream: of :attr:`definition`.
        :param storage_options: options of the object store, as deltalake takes them.
        """


def other_table(location: str, found: str, created_on: str) -> str:
    """Say how an upstream's id shows that it is another one; empty if it is the one that the job was created on."""
    return (
        "" if found == created_on else f"{location} holds table {found}, but the job was created on table {created_on}"
    )
