"""A producer that does what it likes, keeps account of what was committed, and an independent look at the topic."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tenacity import Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_fixed

from airflow_backfill_provider.sources.split_offsets import ends_of
from tests.integration.kafka.shop import TopicOfOrders

KEYS = 4
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_ms": "1",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "1",
    "delete_retention_ms": "1",
}
"""The settings of a topic that is compacted at once."""

Records = dict[tuple[int, int], str | None]
"""(partition, offset) → value; ``None`` is a tombstone."""


class RandomProducer:
    """
    Writes records and transactions, one of which may stay open for long.

    :param orders: the topic.
    :param seed: decides on everything.
    """

    def __init__(self, orders: TopicOfOrders, seed: int) -> None:
        self.orders = orders
        self.chance = random.Random(seed)
        self.committed: Records = {}
        self._written = 0
        self._uncommitted: Records = {}
        self._is_open = False
        settings = {"topic.metadata.refresh.interval.ms": 500}
        self._plain = orders.kafka.producer(settings)
        self._transactional = orders.kafka.producer({**settings, "transactional.id": orders.topic})
        self._transactional.init_transactions(30)

    def act(self) -> None:
        """Write a few records, and begin or end a transaction now and then."""
        chance = self.chance.random()
        if self._is_open and chance < 0.6:
            self._end(commits=chance < 0.3)
        elif not self._is_open and chance < 0.5:
            self._transactional.begin_transaction()
            self._is_open = True
            self._write(self._transactional, self._uncommitted)
            if chance < 0.3:
                self._end(commits=chance < 0.15)
        self._write(self._plain, self.committed)

    def end(self) -> None:
        """End an open transaction, and wait until all that was committed can be read."""
        if self._is_open:
            self._end(commits=True)
        last: dict[int, int] = {}
        for partition, offset in self.committed:
            last[partition] = max(last.get(partition, 0), offset)

        def is_hidden() -> bool:
            ends = ends_of(self.orders.backfill.upstream.latest())
            return any(ends.get(partition, 0) <= offset for partition, offset in last.items())

        # A broker ends a transaction after it has said so.
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.05), stop=stop_after_delay(30))(is_hidden)

    def _end(self, *, commits: bool) -> None:
        assert self._transactional.flush(30) == 0
        if commits:
            self._transactional.commit_transaction(30)
            self.committed |= self._uncommitted
        else:
            self._transactional.abort_transaction(30)
        self._uncommitted, self._is_open = {}, False

    def _write(self, producer: Producer, account: Records) -> None:
        partitions = len(ends_of(self.orders.backfill.upstream.latest())) if self.orders.job else 3
        # A producer learns of new partitions a while after the job.
        patient = Retrying(retry=retry_if_exception(is_unknown), wait=wait_fixed(0.05), stop=stop_after_delay(30))
        for _ in range(self.chance.randrange(1, 8)):
            self._written += 1
            value = None if self.chance.random() < 0.15 else f"value {self._written}"
            patient(
                producer.produce,
                self.orders.topic,
                value,
                key=f"key {self.chance.randrange(KEYS)}",
                partition=self.chance.randrange(partitions),
                on_delivery=partial(note, account),
            )
        assert producer.flush(30) == 0


def is_unknown(error: BaseException) -> bool:
    """Return whether a producer refused a record because it does not know the partition yet."""
    return isinstance(error, KafkaException) and error.args[0].code() == KafkaError._UNKNOWN_PARTITION


def note(account: Records, error: KafkaError | None, message: Message) -> None:
    """Note a record that was delivered, or read."""
    assert error is None, error
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None
    assert offset is not None
    account[partition, offset] = None if value is None else value.decode()


def consumed(servers: str, topic: str, ends: Mapping[int, int]) -> Records:
    """Read a topic's committed records up to some offsets, as any other client would."""
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": "of-the-test",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    found: Records = {}
    left = {partition for partition, end in ends.items() if end}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in sorted(left)])
        while left:
            message = consumer.poll(30)
            assert message is not None, f"nothing came any more of partitions {left}"
            if (error := message.error()) is None:
                note(found, None, message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
    finally:
        consumer.close()
    return found
