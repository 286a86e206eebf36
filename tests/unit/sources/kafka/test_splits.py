"""The partitions of a topic as splits: which records are gone, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream
from airflow_backfill_provider.sources.kafka.splits import Partitions
from airflow_backfill_provider.sources.kafka.topic import Compaction, PartitionBounds, TopicState
from airflow_backfill_provider.sources.split_offsets import offset_of


@dataclass
class Kept:
    """A topic whose oldest records lie at these offsets."""

    beginnings: dict[int, int]
    removes: Compaction = Compaction.NONE

    def compaction(self):
        return self.removes

    def state(self):
        bounds = {split: PartitionBounds(beginning=first, end=100) for split, first in self.beginnings.items()}
        return TopicState(topic_id="t1", partitions=bounds)


def partitions(*beginnings, lost_records="fail", removes=Compaction.NONE):
    upstream = KafkaUpstream(connection="events", topic="orders", lost_records=lost_records)
    return Partitions(upstream, Kept(dict(enumerate(beginnings)), removes))


def test_ends_and_beginnings_are_those_of_the_partitions():
    splits = partitions(5, 0)
    assert splits.ends(offset_of({0: 7, 1: 9})) == {0: 7, 1: 9}
    assert splits.beginnings() == offset_of({0: 5, 1: 0})


def test_records_that_are_kept_are_read_without_a_warning():
    splits = partitions(5, 0)
    assert splits.require_kept([SplitRange(0, 5, 9), SplitRange(1, 0, 9), SplitRange(1, 90, 95)]) == ()


def test_nothing_is_asked_if_nothing_is_read():
    assert Partitions(KafkaUpstream(connection="events", topic="orders"), None).require_kept([]) == ()


def test_records_that_are_gone_are_named_with_what_to_do():
    """I6."""
    ranges = [SplitRange(0, 4, 9), SplitRange(1, 0, 3), SplitRange(2, 2, 4)]
    with pytest.raises(ChangeFeedGapError) as refused:
        partitions(5, 8, 0).require_kept(ranges)
    assert str(refused.value).startswith(
        "events: orders: offsets 4 to 4 of partition 0 are gone; events: orders: offsets 0 to 2 of partition 1 are "
        "gone, before the job has read them"
    )
    assert "partition 2" not in str(refused.value)
    assert partitions(5, 8, 0, lost_records="skip").require_kept(ranges) == (
        "events: orders: offsets 4 to 4 of partition 0 are gone, and missing in the view",
        "events: orders: offsets 0 to 2 of partition 1 are gone, and missing in the view",
    )


def test_a_partition_that_is_no_longer_there_has_lost_all():
    """I6: a topic cannot lose partitions, unless it was made anew."""
    with pytest.raises(ChangeFeedGapError, match="offsets 0 to 2 of partition 1 are gone"):
        partitions(0).require_kept([SplitRange(1, 0, 3)])


def test_a_range_without_places_has_none_that_could_be_gone():
    """The window of a partition in which nothing was added ends where retention may have passed."""
    assert partitions(5).require_kept([SplitRange(0, 3, 3)]) == ()


@pytest.mark.parametrize("lost_records", ["fail", "skip"])
def test_records_that_were_read_and_are_gone_are_named(lost_records):
    """I6: whether a job goes on without unread ones does not matter to it."""
    ranges = [SplitRange(0, 4, 9), SplitRange(1, 2, 3)]
    assert partitions(5, 0, lost_records=lost_records).lost(ranges) == (
        "events: orders: offsets 4 to 4 of partition 0 are gone"
    )
    assert partitions(4, 2, lost_records=lost_records).lost(ranges) == ""


@pytest.mark.parametrize(
    ("removes", "named"), [(Compaction.REMOVES, "the topic is compacted"), (Compaction.UNKNOWN, "DESCRIBE_CONFIGS")]
)
def test_compaction_may_have_removed_any_record(removes, named):
    assert named in partitions(0, removes=removes).lost([SplitRange(0, 0, 3)])
