"""The partitions of a topic, as splits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream, LostRecords
from airflow_backfill_provider.sources.kafka.topic import Compaction, Topic
from airflow_backfill_provider.sources.split_offsets import offset_of
from airflow_backfill_provider.sources.splits import Splits


class Partitions(Splits):
    """
    The partitions of a topic, with the oldest records that were left when they were first asked for.

    :param upstream: the job's definition of it.
    """

    def __init__(self, upstream: KafkaUpstream, topic: Topic) -> None:
        self._upstream = upstream
        self._topic = topic

    @cached_property
    def _beginnings(self) -> dict[int, int]:
        # A plan asks several times, and each request costs; all of it has to be about one moment.
        return self._topic.state().beginnings

    def beginnings(self) -> Offset:
        """Return the offsets of the oldest records that are left."""
        return offset_of(self._beginnings)

    def require_kept(self, ranges: Sequence[SplitRange]) -> tuple[str, ...]:
        """Compare records that are to be read with the oldest ones that are left."""
        gone = self._gone(ranges)
        if gone and self._upstream.lost_records is LostRecords.FAIL:
            raise ChangeFeedGapError(
                f"{'; '.join(gone)}, before the job has read them: the topic's retention or somebody removed them. "
                "Rebuild the job, which begins with the oldest records left; with lost_records: skip it would go on"
            )
        return tuple(f"{text}, and missing in the view" for text in gone)

    def lost(self, ranges: Sequence[SplitRange]) -> str:
        """Return what retention has removed, or that compaction may have removed records."""
        if gone := self._gone(ranges):
            return "; ".join(gone)
        match self._topic.compaction():
            case Compaction.REMOVES:
                return f"{self._upstream.location}: the topic is compacted, which removes records"
            case Compaction.UNKNOWN:
                return (
                    f"{self._upstream.location}: the login may not ask whether the topic is compacted, which removes "
                    "records; grant it DESCRIBE_CONFIGS on the topic"
                )
            case _:
                return ""

    def _gone(self, ranges: Sequence[SplitRange]) -> list[str]:
        """Return which of some places lie before the oldest records that are left, in words."""
        if not ranges:
            return []
        beginnings = self._beginnings
        return [
            f"{self._upstream.location}: offsets {places.begin} to {min(oldest, places.end) - 1} of partition "
            f"{places.split} are gone"
            for places in ranges
            if places.size and places.begin < (oldest := beginnings.get(places.split, places.end))
        ]
