"""
Reads a topic's records on Spark, each partition between two offsets.

The offsets are pinned in the barrier, so every attempt reads the same records. Spark reads only records of committed
transactions, and fails if records between the offsets were removed, unless the job goes on without them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.splits import SplitRange
from airflow_backfill_provider.sources.appended_rows import as_inserts
from airflow_backfill_provider.sources.hidden_options import hide_options
from airflow_backfill_provider.sources.kafka import LostRecords, UnreadableRecords
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
from airflow_backfill_provider.sources.kafka.source import KafkaSource
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.split_offsets import ends_of, window

MOST_WAITING = "20"
"""
The most milliseconds that a broker waits for new records.

At the end of a range the client asks for more, and its next question waits behind that. By default, each partition then
costs half a second.
"""


class KafkaReader(SourceReader):
    """
    Reads one topic.

    :param source: the topic.
    """

    keys_are_unique: ClassVar[bool] = True
    appends_only: ClassVar[bool] = True

    def __init__(self, spark: SparkSession, source: KafkaSource) -> None:
        self._spark = spark
        self._source = source

    def rows(self, offset: Offset) -> DataFrame:
        """Return the records up to an offset that are left."""
        beginnings = ends_of(self._source.splits.beginnings())
        return self.rows_of(
            [SplitRange(split, beginnings.get(split, end), end) for split, end in ends_of(offset).items()]
        )

    def rows_of(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return the records of partitions between two offsets each."""
        found = self._decoded([places for places in ranges if places.size])
        if self._source.upstream.unreadable_records is UnreadableRecords.FAIL:
            return failing_rows(found)
        return readable_rows(found)

    def is_left(self, key: Sequence[Column]) -> Column:
        """Return the condition that retention has not removed a record: its offset is not before the oldest one."""
        partition, offset = key
        beginnings = ends_of(self._source.splits.beginnings())
        return reduce(
            lambda any_of, one: any_of | one,
            ((partition == split) & (offset >= beginning) for split, beginning in beginnings.items()),
            F.lit(False),
        )

    def empty(self) -> DataFrame:
        """Return all columns, without records."""
        return self.rows_of([])

    def changes(self, after: Offset, up_to: Offset) -> DataFrame:
        """Return the records of the window ``(after, up_to]``."""
        return as_inserts(self.rows_of(window(after, up_to)), up_to)

    def unreadable(self, ranges: Sequence[SplitRange]) -> DataFrame | None:
        """Return the records of partitions between two offsets each that their formats cannot read."""
        if self._source.upstream.unreadable_records is UnreadableRecords.FAIL:
            return None
        return unreadable_rows(self._decoded([places for places in ranges if places.size]))

    def _decoded(self, ranges: Sequence[SplitRange]) -> DecodedRecords:
        return decoded_records(self._raw(ranges), self._source.formats)

    def _raw(self, ranges: Sequence[SplitRange]) -> DataFrame:
        """Return records as bytes."""
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
            **kafka_connection(upstream.connection).spark(),
            "kafka.isolation.level": "read_committed",
            "assign": json.dumps({upstream.topic: sorted(by_partition)}),
            "startingOffsets": json.dumps({upstream.topic: first}),
            "endingOffsets": json.dumps({upstream.topic: last}),
            "failOnDataLoss": "false" if upstream.lost_records is LostRecords.SKIP else "true",
            "includeHeaders": "true",
        }
        return self._spark.read.format("kafka").options(**options).load().select(*NAMES)
