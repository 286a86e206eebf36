"""Reads single records of a topic without Spark, to learn how old they are."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, TopicPartition

from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.cluster import REQUEST_SECONDS
from airflow_backfill_provider.sources.kafka.connection import kafka_connection
from airflow_backfill_provider.sources.kafka.topic import Topic, instant_of

_GROUP = "airflow_backfill"
"""The client wants a name of a group. No group is joined, and no offset is committed."""

_FETCHED_BYTES = 64 << 10
"""One record of each partition is enough."""


def first_time(topic: Topic, ranges: Sequence[SplitRange]) -> dt.datetime | None:
    """
    Return the oldest timestamp among the first records of some ranges.

    :returns: ``None`` if the ranges have no records, or none came in time.
    """
    awaited = {places.split: places for places in ranges if places.size}
    settings = {
        **kafka_connection(topic.cluster.connection_id).librdkafka(),
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": _FETCHED_BYTES,
        "log_level": 0,
    }
    found: list[dt.datetime] = []
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(topic.name, split, places.begin) for split, places in awaited.items()])
        until = time.monotonic() + REQUEST_SECONDS
        while awaited and time.monotonic() < until:
            record = consumer.poll(0.5)
            if record is None:
                continue
            error, partition, offset = record.error(), record.partition(), record.offset()
            if partition is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):  # noqa: SLF001 - a name
                continue
            # What is awaited need not come: aborted transactions and compaction leave offsets without records.
            places = awaited.pop(partition, None)
            kind, milliseconds = record.timestamp()
            if error is not None or places is None or offset is None or offset >= places.end:
                continue
            if kind != TIMESTAMP_NOT_AVAILABLE and (instant := instant_of(milliseconds)) is not None:
                found.append(instant)
    except KafkaException:
        # It is for a display, and every other question says what is wrong with the cluster.
        return None
    finally:
        consumer.close()
    return min(found, default=None)
