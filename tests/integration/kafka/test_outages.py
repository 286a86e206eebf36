"""Brokers that go away during an epoch, and records larger than a fetch: nothing is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from tests.integration.kafka.shop import TopicOfOrders
from tests.kafka_broker import two_brokers

pytestmark = pytest.mark.spark


def until_retryable(orders: TopicOfOrders) -> None:
    """Run epochs until there is nothing to do, or one fails with an error that a retry helps against."""
    try:
        orders.finish()
    except BackfillError as error:
        if not error.retryable:
            raise


@pytest.mark.exhaustive
def test_a_broker_that_restarts_during_an_epoch_is_waited_for(orders: TopicOfOrders) -> None:
    """I2: Spark's client tries again; if that takes too long, the epoch fails, and a retry goes on."""
    orders.kafka.create_topic(orders.topic)
    orders.add(*range(20))
    orders.create(rate_limit=8)
    orders.epoch()
    restarting = threading.Thread(target=orders.kafka.start)

    def stop(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_PIN:
            crash_points.install(None)
            orders.kafka.kill()
            restarting.start()

    crash_points.install(stop)
    try:
        until_retryable(orders)
    finally:
        crash_points.install(None)
        restarting.join()
    orders.finish()
    assert [value for _, _, value in orders.rows()] == [*map(str, range(20))]


@pytest.mark.exhaustive
def test_a_leader_that_dies_during_an_epoch_is_replaced(
    spark: SparkSession,
    lake: Path,
    topic: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """I2."""
    with two_brokers(tmp_path_factory.mktemp("kafka")) as (first, second):
        monkeypatch.setenv("AIRFLOW_CONN_EVENTS", first.connection())
        first.create_topic(topic, replicas=[[2, 1], [1, 2]])
        orders = TopicOfOrders(spark, lake, first, topic)
        for partition in range(2):
            orders.add(*range(20), partition=partition)
        orders.create(rate_limit=10)
        orders.epoch()

        def kill(point: CrashPoint) -> None:
            if point is CrashPoint.AFTER_PIN:
                crash_points.install(None)
                second.kill()

        crash_points.install(kill)
        for _ in range(5):
            until_retryable(orders)
        crash_points.install(None)
        assert orders.rows() == sorted((split, n, str(n)) for split in range(2) for n in range(20))


@pytest.mark.exhaustive
def test_records_that_are_larger_than_a_fetch_are_read(orders: TopicOfOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are for batches; a record that is larger comes alone."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_EVENTS", orders.kafka.connection(fetch_max_bytes="1000", max_partition_fetch_bytes="1000")
    )
    orders.kafka.create_topic(orders.topic)
    values = ["small", "x" * 500_000, "small again", "y" * 900_000]
    orders.add(*values)
    orders.create(rate_limit=3)
    orders.finish()
    assert [value for _, _, value in orders.rows()] == values
