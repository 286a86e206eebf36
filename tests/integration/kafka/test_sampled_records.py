"""How old and how large records are, without Spark, and what an instant is if timestamps are in no order."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.scan.splits import SplitRange
from airflow_backfill_provider.sources.kafka.cluster import Cluster
from airflow_backfill_provider.sources.kafka.reader import records_at_once
from airflow_backfill_provider.sources.kafka.sampled_records import first_time, largest_size
from airflow_backfill_provider.sources.kafka.topic import Topic
from airflow_backfill_provider.sources.split_offsets import ends_of
from tests.integration.engine.lakehouse import TESTER
from tests.integration.kafka.shop import TopicOfOrders
from tests.kafka_broker import KafkaBroker

HOUR = 3_600_000
NOON = 1_700_000_000_000


def instant(milliseconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


def write_at(kafka: KafkaBroker, topic: str, *timestamps: int, partition: int = 0) -> None:
    producer = kafka.producer()
    for timestamp in timestamps:
        producer.produce(topic, f"at {timestamp}", partition=partition, timestamp=timestamp)
    assert producer.flush(30) == 0


@pytest.mark.slow
def test_the_age_of_what_is_unread_is_that_of_the_oldest_first_record(
    kafka: KafkaBroker, cluster: Cluster, topic: str
) -> None:
    kafka.create_topic(topic, 3, retention_ms="-1")
    write_at(kafka, topic, NOON, NOON + 2 * HOUR)
    write_at(kafka, topic, NOON + HOUR, NOON + 3 * HOUR, partition=1)
    read = Topic(cluster, topic)
    assert first_time(read, [SplitRange(0, 0, 2), SplitRange(1, 0, 2)]) == instant(NOON)
    assert first_time(read, [SplitRange(0, 1, 2), SplitRange(1, 0, 2)]) == instant(NOON + HOUR)
    assert first_time(read, [SplitRange(0, 1, 2), SplitRange(1, 2, 2), SplitRange(2, 0, 0)]) == instant(NOON + 2 * HOUR)
    assert first_time(read, [SplitRange(2, 0, 0)]) is None


@pytest.mark.slow
def test_offsets_without_a_record_are_not_waited_for(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    """Semantics 15: an aborted transaction leaves no record behind, and a status is asked for often."""
    kafka.create_topic(topic, 2)
    producer = kafka.producer({"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, "aborted", partition=0)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    read = Topic(cluster, topic)
    until = time.monotonic() + 30
    while read.state().ends[0] < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert first_time(read, [SplitRange(0, 0, 2)]) is None
    # What comes after the places that were asked about is no part of them.
    write_at(kafka, topic, NOON)
    assert first_time(read, [SplitRange(0, 0, 2)]) is None


@pytest.mark.slow
def test_a_large_first_record_is_read(kafka: KafkaBroker, cluster: Cluster, topic: str) -> None:
    kafka.create_topic(topic, retention_ms="-1")
    producer = kafka.producer()
    producer.produce(topic, "x" * 900_000, timestamp=NOON)
    assert producer.flush(30) == 0
    assert first_time(Topic(cluster, topic), [SplitRange(0, 0, 1)]) == instant(NOON)


@pytest.mark.slow
def test_wide_records_are_handed_over_few_at_a_time_however_well_they_compress(
    kafka: KafkaBroker, cluster: Cluster, topic: str
) -> None:
    """A fetch is bounded as it is compressed, so what a task keeps in memory is bounded by a number of records."""
    kafka.create_topic(topic, 2, retention_ms="-1")
    producer = kafka.producer({"compression.type": "zstd"})
    for number in range(60):
        producer.produce(topic, "small", partition=0)
        producer.produce(topic, "x" * (900_000 if number >= 25 else 10), key="key", headers={"h": b"head"}, partition=1)
    assert producer.flush(60) == 0
    read = Topic(cluster, topic)
    small, grown = SplitRange(0, 0, 60), SplitRange(1, 0, 60)
    assert largest_size(read, [small]) == 5
    assert largest_size(read, [small, grown]) == 900_007
    assert largest_size(read, [SplitRange(1, 60, 60)]) is None
    assert records_at_once(read, [small]) == 20_000
    assert records_at_once(read, [small, grown]) == 37
    # So few records fit into memory, whatever their size.
    assert records_at_once(Topic(cluster, "no such topic"), [SplitRange(1, 0, 32)]) == 32


@pytest.mark.exhaustive
@pytest.mark.spark
def test_an_instant_among_unordered_timestamps_reads_no_record_twice(orders: TopicOfOrders) -> None:
    """I1 and I3: producers set timestamps, so a later instant may be an earlier offset in a partition."""
    orders.kafka.create_topic(orders.topic, 2, retention_ms="-1")
    write_at(orders.kafka, orders.topic, NOON, NOON + 5 * HOUR, NOON + HOUR)
    write_at(orders.kafka, orders.topic, NOON + HOUR, NOON, partition=1)
    orders.create()

    def run_until(milliseconds: int) -> dict[int, int]:
        backfill = orders.backfill
        injected = protocol.inject_barrier(
            store=backfill.store, upstream=backfill.upstream, requester=TESTER, until=instant(milliseconds)
        )
        if injected.barrier is not None:
            orders.run(injected.barrier)
        barriers = list(orders.barriers())
        return ends_of(barriers[-1].upstream.to_offset) if barriers else {}

    # An instant lies before the first record that is younger, even if an older one comes after it.
    assert run_until(NOON + 2 * HOUR) == {0: 1, 1: 2}
    # An older record that comes later does not take the job back.
    write_at(orders.kafka, orders.topic, NOON, partition=1)
    assert run_until(NOON) == {0: 1, 1: 2}
    assert len(orders.rows_with_nulls()) == 3
    assert run_until(NOON + 6 * HOUR) == {0: 3, 1: 3}
    assert len(orders.rows_with_nulls()) == 6
    status = orders.backfill.status()
    assert (status.lag_versions, status.lag_seconds) == (0, 0)
    write_at(orders.kafka, orders.topic, int(time.time() * 1000) - HOUR, partition=1)
    status = orders.backfill.status()
    assert status.lag_versions == 1
    assert status.lag_seconds is not None
    assert 3500 < status.lag_seconds < 3800
