"""Records and topics that are not as they should be: the job goes on, or says what is wrong."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from airflow_backfill_provider.core.errors import KafkaUnavailableError, UnsupportedValueError
from airflow_backfill_provider.sources.kafka.cluster import Cluster
from airflow_backfill_provider.sources.kafka.topic import Topic
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.integration.kafka.shop import TopicOfOrders
from tests.kafka_broker import KafkaBroker

pytestmark = pytest.mark.spark

ANY_TIME = {"message_timestamp_after_max_ms": str(2**63 - 1)}


def put(orders: TopicOfOrders, value: str, timestamp: int) -> None:
    orders.producer.produce(orders.topic, value, timestamp=timestamp)
    assert orders.producer.flush(30) == 0


def microseconds() -> int:
    return time.time_ns() // 1000


@pytest.mark.exhaustive
def test_a_timestamp_in_microseconds_stops_neither_epochs_nor_the_status(orders: TopicOfOrders) -> None:
    """I4: it is in the year 57,000, and the query does not use it."""
    orders.kafka.create_topic(orders.topic, **ANY_TIME)
    put(orders, "early", microseconds())
    orders.create()
    status = orders.backfill.status()
    assert (status.lag_versions, status.behind_since) == (1, None)
    orders.finish()
    put(orders, "a", int(time.time() * 1000))
    put(orders, "late", microseconds())
    assert orders.backfill.status().lag_versions == 2
    commit = orders.epoch()
    assert commit is not None
    assert [value for _, _, value in orders.rows()] == ["early", "a", "late"]
    watermark = orders.backfill.store.barriers()[-1].upstream.watermark
    assert watermark <= dt.datetime.now(dt.UTC)
    orders.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize("unreadable", ["fail", "dead_letter"])
def test_a_timestamp_beyond_the_calendar_is_unreadable(orders: TopicOfOrders, unreadable: str) -> None:
    """I6: no other program could read it in the view."""
    orders.kafka.create_topic(orders.topic, **ANY_TIME)
    put(orders, "a", int(time.time() * 1000))
    put(orders, "late", microseconds())
    settings = orders.create(
        kafka={"unreadable_records": unreadable},
        query="SELECT partition, offset, CAST(value AS STRING) AS value, timestamp FROM upstream",
    )
    if unreadable == "fail":
        with pytest.raises(UnsupportedValueError, match="offset 1: the timestamp lies beyond the year 9999"):
            orders.epoch()
        return
    orders.finish()
    assert [value for _, _, value, _ in orders.rows()] == ["a"]
    (letter,) = orders.spark.read.format("delta").load(dead_letters_of(settings)).collect()
    assert (bytes(letter.value), letter.timestamp) == (b"late", None)


@pytest.mark.exhaustive
@pytest.mark.parametrize("late", [9_223_372_036_854_776, 1_767_225_600_000_000_000])
def test_a_timestamp_that_spark_cannot_read_is_named(orders: TopicOfOrders, late: int) -> None:
    """I6: in nanoseconds, it is too great for Spark's own type, whether or not the query uses it."""
    orders.kafka.create_topic(orders.topic, **ANY_TIME)
    put(orders, "a", int(time.time() * 1000))
    put(orders, "late", late)
    put(orders, "b", int(time.time() * 1000))
    orders.create()
    with pytest.raises(UnsupportedValueError, match="offset 1"):
        orders.epoch()
    assert orders.backfill.status().lag_versions == 3


@pytest.mark.exhaustive
def test_a_topic_that_was_deleted_is_an_alarm_of_the_status(orders: TopicOfOrders) -> None:
    orders.kafka.create_topic(orders.topic)
    orders.add("a")
    orders.create()
    orders.finish()
    orders.kafka.delete_topic(orders.topic)
    status = orders.backfill.status()
    assert any(f"there is no topic {orders.topic}" in alarm.message for alarm in status.alarms)


@pytest.mark.exhaustive
def test_a_listener_of_another_protocol_is_a_cause_that_is_named(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection(bootstrap_servers=kafka.servers("SASL_PLAINTEXT")))
    with pytest.raises(KafkaUnavailableError, match=r"check the connection's security\.protocol"):
        Topic(Cluster("events"), topic).state()
