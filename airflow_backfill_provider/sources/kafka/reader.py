"""
Reads a topic's records on Spark, each partition between two offsets.

The offsets are pinned in the barrier, so every attempt reads the same records. Spark reads only records of committed
transactions, and fails if records between the offsets were removed, unless the job goes on without them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.columns import NAMES
from airflow_backfill_provider.sources.kafka.connection import SECRET_OPTIONS, kafka_connection
from airflow_backfill_provider.sources.kafka.decoding import (
    RAW_SCHEMA,
    DecodedRecords,
    decoded_records,
    failing_rows,
    readable_rows,
    unreadable_rows,
)
from airflow_backfill_provider.sources.kafka.definition import OFFSET, PARTITION, LostRecords
from airflow_backfill_provider.sources.kafka.sampled_records import largest_size
from airflow_backfill_provider.sources.kafka.source import KafkaSource
from airflow_backfill_provider.sources.kafka.topic import Compaction, Topic
from airflow_backfill_provider.sources.shared.appended_rows import AppendedRowsReader, as_inserts, is_among
from airflow_backfill_provider.sources.shared.by_key import with_keys, without_keys
from airflow_backfill_provider.sources.shared.hidden_options import hide_options
from airflow_backfill_provider.sources.split_offsets import ends_of, window

MOST_WAITING = "20"
"""
The most milliseconds that a broker waits for new records.

At the end of a range the client asks for more, and its next question waits behind that. By default, each partition then
costs half a second.
"""

_BYTES_AT_ONCE = 32 << 20
"""
How much of a partition's records a client should hand over at once, uncompressed.

Only this bounds the memory of a task: the size of a fetch is bounded as the records are compressed.
"""

_MOST_AT_ONCE = 20_000
"""
The most records that a client hands over at once.

Each time, Spark asks for the topic's ends, and the client then drops whatever else it has fetched. By default it hands
over 500, so a broker sends small records many times.
"""

_FEW_RECORDS = 32
"""So few records of a partition fit into memory whatever their size, which is not asked for then."""


def records_at_once(topic: Topic, ranges: Sequence[SplitRange]) -> int:
    """
    Return how many records of a partition a client should hand over at once, by the size of some of them.

    :param topic: the topic; a few records of each range are read from it.
    :param ranges: what will be read.
    """
    if max(places.size for places in ranges) <= _FEW_RECORDS:
        return _FEW_RECORDS
    size = largest_size(topic, ranges)
    return _FEW_RECORDS if size is None else min(max(_BYTES_AT_ONCE // max(size, 1), 1), _MOST_AT_ONCE)


class KafkaReader(AppendedRowsReader):
    """
    Reads one topic.

    :param source: the topic.
    """

    def __init__(self, spark: SparkSession, source: KafkaSource) -> None:
        self._spark = spark
        self._source = source

    def rows_left(self, offset: Offset) -> DataFrame:
        """Return the records up to an offset that are left; some may be removed while they are read."""
        beginnings = ends_of(self._source.splits.beginnings())
        left = [SplitRange(split, beginnings.get(split, end), end) for split, end in ends_of(offset).items()]
        return self._used(left, LostRecords.SKIP)

    def all_rows(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return all records in ``(after, up_to]``, also if the job goes on without lost ones that it has not read."""
        return self._used(window(after, up_to), LostRecords.FAIL)

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return the records of partitions between two offsets each."""
        return self._used(ranges, self._source.upstream.lost_records)

    def _used(self, ranges: Sequence[SplitRange], lost: LostRecords) -> DataFrame:
        """Return the records that the view has, if their formats can read them all."""
        found = self._decoded(ranges, lost)
        return readable_rows(found) if self._source.upstream.lists_unreadable else failing_rows(found)

    def without_removed(self, rows: DataFrame, key: Sequence[str], up_to: Offset) -> DataFrame:
        """
        Return the rows whose records neither retention nor compaction has removed.

        :raises KafkaRefusedError: if records are missing, and the login may not ask whether the topic is compacted.
        """
        source = self._source
        beginnings = ends_of(source.splits.beginnings())
        ends = ends_of(up_to)
        oldest = {split: min(beginnings.get(split, 0), end) for split, end in ends.items()}
        rows = rows.filter(~is_among(key, [SplitRange(split, 0, begin) for split, begin in oldest.items()]))
        compaction = source.topic.compaction()
        if compaction is Compaction.NONE:
            return rows
        since = [SplitRange(split, oldest[split], end) for split, end in ends.items()]
        is_since = is_among(key, since)
        left = self._raw(since, LostRecords.SKIP).select(PARTITION, OFFSET)
        if compaction is Compaction.UNKNOWN:
            if not without_keys(rows.filter(is_since), left, key).isEmpty():
                raise source.topic.unknown_compaction()
            return rows
        return rows.filter(~is_since).unionAll(with_keys(rows.filter(is_since), left, key))

    def empty(self) -> DataFrame:
        """Return all columns, without records."""
        return self.rows_of([])

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the records of the window ``(after, up_to]``."""
        return as_inserts(self.rows_of(window(after, up_to)), up_to)

    def unreadable(self, ranges: Sequence[SplitRange]) -> DataFrame | None:
        """Return the records of partitions between two offsets each that their formats cannot read."""
        if not self._source.upstream.lists_unreadable:
            return None
        return unreadable_rows(self._decoded(ranges, self._source.upstream.lost_records))

    def _decoded(self, ranges: Sequence[SplitRange], lost: LostRecords) -> DecodedRecords:
        return decoded_records(self._raw(ranges, lost), self._source.formats)

    def _raw(self, ranges: Sequence[SplitRange], lost: LostRecords) -> DataFrame:
        """
        Return records as bytes.

        :param lost: what to do if records are removed before they are read.
        """
        ranges = [places for places in ranges if places.size]
        if not ranges:
            return self._spark.createDataFrame([], RAW_SCHEMA)
        hide_options(self._spark, SECRET_OPTIONS)
        upstream = self._source.upstream
        by_partition: dict[int, list[SplitRange]] = defaultdict(list)
        for places in ranges:
            by_partition[places.split].append(places)
        first = {split: min(places.begin for places in found) for split, found in by_partition.items()}
        last = {split: max(places.end for places in found) for split, found in by_partition.items()}
        options = {
            "kafka.fetch.max.wait.ms": MOST_WAITING,
            "kafka.max.poll.records": str(records_at_once(self._source.topic, ranges)),
            **kafka_connection(upstream.connection).spark(),
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({upstream.topic: sorted(by_partition)}),
            "startingOffsets": json.dumps({upstream.topic: first}),
            "endingOffsets": json.dumps({upstream.topic: last}),
            "failOnDataLoss": "false" if lost is LostRecords.SKIP else "true",
            "includeHeaders": "true",
        }
        return self._spark.read.format("kafka").options(**options).load().select(*NAMES)
