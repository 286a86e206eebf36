"""A topic as a job's upstream, without a JVM."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Mapping, Sequence

from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.errors import (
    UpstreamNotFoundError,
    UpstreamRefusedError,
    UpstreamReplacedError,
    UpstreamUnavailableError,
)
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics, KeyIndex
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.description import other_table
from airflow_backfill_provider.sources.kafka.cluster import Cluster
from airflow_backfill_provider.sources.kafka.columns import RecordFormats, RecordTypes
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream
from airflow_backfill_provider.sources.kafka.description import KafkaDescription
from airflow_backfill_provider.sources.kafka.sampled_records import first_time
from airflow_backfill_provider.sources.kafka.splits import Partitions
from airflow_backfill_provider.sources.kafka.topic import Topic, TopicState
from airflow_backfill_provider.sources.kafka.watch import KafkaWatch
from airflow_backfill_provider.sources.shared.no_keys import NoKeys
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window
from airflow_backfill_provider.sources.watch import SourceWatch

logger = logging.getLogger(__name__)

ASSUMED_BYTES = 200
"""The assumed size of a record, for estimates: a cluster does not tell."""


class KafkaSource(Source):
    """
    A topic. An offset has one offset for each partition.

    :param upstream: the definition.
    :param pinned: what a job pinned when it was created on it.
    """

    def __init__(self, upstream: KafkaUpstream, pinned: Mapping[str, str] | None = None) -> None:
        self.upstream = upstream
        self.formats = RecordFormats(upstream, pinned or {})
        self.topic = Topic(Cluster(upstream.connection), upstream.topic)

    @property
    def location(self) -> str:
        """The connection and the topic."""
        return self.upstream.location

    def as_created(self, upstream: ResolvedUpstream) -> KafkaSource:
        """Return the topic with the formats that a job pinned."""
        return KafkaSource(self.upstream, upstream.pinned)

    # ------------------------------------------------------------------------------------------------- history

    def latest(self) -> Offset:
        """Return the ends of the partitions: after the newest record of a transaction that is decided."""
        return offset_of(self.topic.state().ends)

    def offset_at(self, instant: dt.datetime) -> Offset | None:
        """Return the offsets of the first records whose timestamps are later than an instant."""
        return offset_of(self.topic.offsets_at(instant + dt.timedelta(milliseconds=1)))

    def not_before(self, offset: Offset, reached: Offset) -> Offset:
        """
        Return an offset, moved on in the partitions in which it lies before one that a job has reached.

        Producers set the timestamps of records, so offsets at an instant may be anywhere.
        """
        known = ends_of(reached)
        return offset_of({split: max(end, known.get(split, 0)) for split, end in ends_of(offset).items()})

    def at(self, offset: Offset | None = None) -> KafkaDescription:
        """Describe the topic; its columns are always the same."""
        state = self.topic.state()
        return KafkaDescription(
            location=self.location,
            offset=offset_of(state.ends) if offset is None else offset,
            table_id=state.topic_id,
            types=RecordTypes(self.formats),
            formats=self.formats,
        )

    def watermark(self, offset: Offset) -> dt.datetime:
        """
        Return the newest timestamp of any record of the topic, or the present time if it has none.

        It may be of a record after the offset: a cluster does not tell what it was before.
        """
        del offset
        return self.topic.newest_time() or dt.datetime.now(dt.UTC)

    def point(self, offset: Offset) -> HistoryPoint:
        """Return an offset with the topic's id as the mark."""
        return HistoryPoint(offset=offset, mark=self.topic.state().topic_id)

    def require_same_history(self, known: HistoryPoint) -> None:
        """
        Refuse a topic that was made anew, or whose partitions end before offsets that the job has reached.

        :raises UpstreamReplacedError: with what differs.
        """
        if difference := _difference(self.topic.state(), known, self.location):
            raise UpstreamReplacedError(f"{difference}: rebuild the job")

    def watch(self) -> SourceWatch:
        """Return a watch that asks for the topic's ends."""
        return KafkaWatch(self.topic)

    # ------------------------------------------------------------------------------------------------- changes

    def has_changes(self, after: Offset, up_to: Offset) -> bool:
        """Return whether records may have been added in ``(after, up_to]``."""
        return any(places.size for places in window(after, up_to))

    def changes_kept_for(self) -> dt.timedelta | None:
        """Return ``None``: the retention of a topic may be a number of bytes, too."""
        return None

    def change_feed(
        self,
        read_up_to: Offset | None,
        needed_after: Offset | None = None,
        *,
        created_on: ResolvedUpstream | None = None,
        reached: HistoryPoint | None = None,
    ) -> ChangeFeed:
        """Return what the job lacks, and whether the topic is still the job's."""
        del needed_after
        known = read_up_to or BEGINNING
        try:
            state = self.topic.state()
            latest = offset_of(state.ends)
            replaced = other_table(self.location, state.topic_id, created_on.table_id) if created_on else ""
            if not replaced and reached is not None:
                replaced = _difference(state, reached, self.location)
            unread = None
            if not replaced and read_up_to is not None and self.has_changes(known, latest):
                unread = first_time(self.topic, window(known, latest))
        except (UpstreamUnavailableError, UpstreamRefusedError) as error:
            return ChangeFeed(latest=known, kept_for=None, unanswered=str(error))
        except UpstreamNotFoundError as error:
            return ChangeFeed(latest=known, kept_for=None, replaced=str(error))
        return ChangeFeed(latest=latest, kept_for=None, unread_since=unread, replaced=replaced)

    def require_changes(self, after: Offset, up_to: Offset) -> None:
        """
        Refuse a window ``(after, up_to]`` with records that are gone, unless the job goes on without them.

        :raises ChangeFeedGapError: with what is gone.
        """
        for warning in self.splits.require_kept(window(after, up_to)):
            logger.warning("%s", warning)

    @property
    def old_columns(self) -> None:
        """All columns: rows never change."""
        return

    # ------------------------------------------------------------------------------------------- rows and keys

    @property
    def splits(self) -> Partitions:
        """The partitions."""
        return Partitions(self.upstream, self.topic)

    @property
    def can_reread(self) -> bool:
        """Whether records can be read again at any time: no, retention and compaction remove them."""
        return False

    def row_count(self, offset: Offset) -> int:
        """Return the number of records up to an offset that are left; gaps are counted, too."""
        return sum(places.size for places in self._left(offset))

    def blocks(self, offset: Offset, order: KeyOrder) -> Sequence[FileStatistics]:
        """Return each partition as one block."""
        del order
        return [
            FileStatistics(
                path=f"{self.upstream.topic}-{places.split}",
                row_count=places.size,
                is_exact=False,
                size=places.size * ASSUMED_BYTES,
                lower=(places.split, places.begin),
                upper=(places.split, places.end - 1),
            )
            for places in self._left(offset)
            if places.size
        ]

    def blocks_of_job(self, offset: Offset, settings: JobSettings) -> tuple[Sequence[FileStatistics], KeyIndex]:
        """Return each partition as one block."""
        return self.blocks(offset, settings.key_order), NoKeys()

    def _left(self, offset: Offset) -> list[SplitRange]:
        beginnings = self.topic.state().beginnings
        return [SplitRange(split, beginnings.get(split, end), end) for split, end in ends_of(offset).items()]


def _difference(state: TopicState, known: HistoryPoint, location: str) -> str:
    """Return how a topic differs from the one that a job has read; empty if it does not."""
    if known.mark is not None and known.mark != state.topic_id:
        return f"{location} was made anew: its id is {state.topic_id} instead of {known.mark}"
    for partition, end in ends_of(known.offset).items():
        found = state.ends.get(partition, 0)
        if found < end:
            return (
                f"partition {partition} of {location} ends with offset {found}, but the job has read up to {end}; a "
                "leader lost records, or the topic was restored from an older copy"
            )
    return ""
