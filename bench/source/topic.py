"""The topic: JSON records of orders, on a Kafka broker of the benchmark's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo.kafka.records import write_all
from tests.kafka_broker import KafkaBroker, kafka_broker

CONNECTION = "bench_events"
TOPIC, FEW = "orders", "few"
PARTITIONS = 8
SCHEMA = "order_id BIGINT, customer_id INT, amount DECIMAL(12,2), status STRING, note STRING"
FIELDS = ("order_id", "customer_id", "amount", "status", "note")

_PRODUCER = {
    "linger.ms": 50,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 500_000,
    "compression.type": "lz4",
}


@contextmanager
def broker_with_orders(records: int, few: int) -> Iterator[KafkaBroker]:
    """
    Start a broker, and fill two topics.

    :param few: the records of the topic that warms up.
    """
    folder = Path(tempfile.mkdtemp(prefix="backfill-bench-kafka-"))
    variable = f"AIRFLOW_CONN_{CONNECTION.upper()}"
    try:
        with kafka_broker(folder / "broker") as broker:
            os.environ[variable] = broker.connection()
            for topic, number in ((TOPIC, records), (FEW, few)):
                broker.create_topic(topic, PARTITIONS)
                _fill(broker, topic, number)
            yield broker
    finally:
        os.environ.pop(variable, None)
        shutil.rmtree(folder)


def _fill(broker: KafkaBroker, topic: str, records: int) -> None:
    producer = broker.producer(_PRODUCER)
    write_all(producer, topic, ((number % PARTITIONS, _order(number)) for number in range(records)))


def _order(number: int) -> str:
    return (
        f'{{"order_id":{number},"customer_id":{number * 7919 % 65536},"amount":{number * 31 % 1_000_000 / 100},'
        f'"status":"paid","note":"note of order {number * 2_654_435_761 % 2**32:x}"}}'
    )
