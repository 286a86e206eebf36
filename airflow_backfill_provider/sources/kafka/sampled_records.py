"""Reads single records of a topic without Spark, to learn how old and how large its records are."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.cluster import REQUEST_SECONDS
from airflow_backfill_provider.sources.kafka.connection import kafka_connection
from airflow_backfill_provider.sources.kafka.topic import Topic, instant_of

_GROUP = "airflow_backfill"
"""The client wants a name of a group. No group is joined, and no offset is committed."""

_FETCHED_BYTES = 64 << 10
"""One record of each partition is enough."""

_PLACES = (0.0, 0.5, 0.9)
"""Where records of a range are sampled, since records may grow while a topic gets older."""


def first_time(topic: Topic, ranges: Sequence[SplitRange]) -> dt.datetime | None:
    """
    Return the oldest timestamp among the first records of some ranges.

    :returns: ``None`` if the ranges have no records, or none came in time.
    """
    timestamps = [record.timestamp() for record in _first_records(topic, [ranges])]
    instants = (instant_of(milliseconds) for kind, milliseconds in timestamps if kind != TIMESTAMP_NOT_AVAILABLE)
    return min((instant for instant in instants if instant is not None), default=None)


def largest_size(topic: Topic, ranges: Sequence[SplitRange]) -> int | None:
    """
    Return the size of the largest of a few records of each range, in bytes, uncompressed.

    :returns: ``None`` if the ranges have no records, or none came in time.
    """
    rounds = [[_from(places, place) for places in ranges] for place in _PLACES]
    return max((_size(record) for record in _first_records(topic, rounds)), default=None)


def _from(places: SplitRange, place: float) -> SplitRange:
    """Return what is left of a range from a place within it."""
    return SplitRange(places.split, places.begin + int(places.size * place), places.end)


def _size(record: Message) -> int:
    parts = [record.key(), record.value(), *dict(record.headers() or {}).values()]
    return sum(len(part) for part in parts if part is not None)


def _first_records(topic: Topic, rounds: Sequence[Sequence[SplitRange]]) -> Iterator[Message]:
    """
    Yield the first record of each range that has one; a partition has one range in each round.

    What a cluster refuses yields nothing: this is for displays and limits, and every other question says what is wrong.
    """
    settings = {
        **kafka_connection(topic.cluster.connection_id).librdkafka(),
        "group.id": _GROUP,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": _FETCHED_BYTES,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    until = time.monotonic() + REQUEST_SECONDS
    try:
        for ranges in rounds:
            yield from _first_of_each(consumer, topic.name, ranges, until)
    except KafkaException:
        return
    finally:
        consumer.close()


def _first_of_each(consumer: Consumer, topic: str, ranges: Sequence[SplitRange], until: float) -> Iterator[Message]:
    awaited = {places.split: places for places in ranges if places.size}
    consumer.assign([TopicPartition(topic, split, places.begin) for split, places in awaited.items()])
    while awaited and time.monotonic() < until:
        record = consumer.poll(0.5)
        if record is None:
            continue
        error, partition, offset = record.error(), record.partition(), record.offset()
        if partition is None or (error is not None and error.code() != KafkaError._PARTITION_EOF):  # noqa: SLF001 - a name
            continue
        # What is awaited need not come: aborted transactions and compaction leave offsets without records.
        places = awaited.pop(partition, None)
        if error is None and places is not None and offset is not None and places.begin <= offset < places.end:
            yield record
