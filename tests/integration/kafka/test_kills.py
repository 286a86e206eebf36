"""An epoch dies between any two of its commits, or its broker does: every record once, and nothing lost."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import KafkaUnavailableError
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.integration.kafka.shop import TopicOfOrders, write

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

JSON = {"format": "json", "schema": "n BIGINT"}
QUERY = "SELECT partition, offset, value.n FROM upstream"

AFTER = [CrashPoint.AFTER_PIN, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT]
OTHERS = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
]


class Died(BaseException):
    """Nothing catches it, as nothing outlives a kill."""


def committed(orders: TopicOfOrders) -> list[tuple[int, int, bytes]]:
    """Return all committed records, as a consumer of its own reads them."""
    consumer = Consumer(
        {
            "bootstrap.servers": orders.kafka.servers(),
            "group.id": f"{orders.topic}-oracle",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    found, ended = [], set()
    consumer.subscribe([orders.topic])
    partitions = len(orders.producer.list_topics(orders.topic).topics[orders.topic].partitions)
    while len(ended) < partitions:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found.append((message.partition(), message.offset(), message.value()))
    consumer.close()
    return sorted(found)


@pytest.mark.parametrize("points", [AFTER, pytest.param([*OTHERS, *AFTER], marks=pytest.mark.exhaustive)], ids=len)
def test_every_record_is_read_once_although_epochs_die(orders: TopicOfOrders, points: list[CrashPoint]) -> None:
    """I2: transactions that abort, a partition that is added, and records that cannot be read."""
    orders.kafka.create_topic(orders.topic, 3)
    transactions = orders.kafka.producer({"transactional.id": orders.topic})
    transactions.init_transactions()
    number = 0

    def more(partition: int) -> None:
        nonlocal number
        for end in (transactions.commit_transaction, transactions.abort_transaction):
            transactions.begin_transaction()
            write(transactions, orders.topic, *({"n": number + index} for index in range(3)), partition=partition)
            end()
            number += 3
        orders.add("unreadable", {"n": number}, partition=(partition + 1) % 3)
        number += 1

    for partition in range(3):
        more(partition)
    settings = orders.create(
        kafka={"value": JSON, "unreadable_records": "dead_letter"}, query=QUERY, rate_limit=8, vnode_count=8
    )
    for turn, point in enumerate(points):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                crash_points.install(None)
                raise Died

        more(turn % 3)
        if turn == 1:
            orders.add_partitions(4)
        if turn:
            orders.add({"n": -turn}, partition=3)
        crash_points.install(die)
        try:
            orders.epoch()
        except Died:
            orders.epoch()
        finally:
            crash_points.install(None)
    orders.finish()
    written = committed(orders)
    assert orders.rows() == [(p, o, json.loads(value)["n"]) for p, o, value in written if value != b"unreadable"]
    letters = orders.spark.read.format("delta").load(dead_letters_of(settings))
    found = sorted((row.partition, row.offset) for row in letters.collect())
    assert found == [(p, o) for p, o, value in written if value == b"unreadable"]
    assert orders.backfill.status().finished


@pytest.mark.exhaustive
def test_an_epoch_during_which_the_broker_is_down_is_completed_later(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add(*range(10))
    orders.create(rate_limit=4)
    orders.epoch()
    barrier = orders.inject()
    assert barrier is not None
    orders.kafka.kill()
    try:
        with pytest.raises(KafkaUnavailableError, match="events: the Kafka cluster does not answer .*nothing is lost"):
            orders.run(barrier)
        status = orders.backfill.status()
        assert "does not answer" in status.alarms[0].message
    finally:
        orders.kafka.start()
    orders.finish()
    assert [value for _, _, value in orders.rows()] == sorted(map(str, range(10)))
