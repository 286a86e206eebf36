"""A topic of orders on a real Kafka broker, and a job over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.settings import JobSettings
from tests.integration.engine.lakehouse import Lakehouse
from tests.kafka_broker import KafkaBroker

QUERY = "SELECT partition, offset, CAST(value AS STRING) AS value FROM upstream"


class TopicOfOrders(Lakehouse):
    """
    A topic, and a job over it.

    :param topic: its name; a test makes it.
    """

    def __init__(self, spark: SparkSession, folder: Path, kafka: KafkaBroker, topic: str) -> None:
        super().__init__(spark, folder)
        self.kafka = kafka
        self.topic = topic
        self.producer = kafka.producer()

    def create(self, **fields: Any) -> JobSettings:
        return super().create(**self.of_topic(fields))

    def rebuild_with(self, **fields: Any) -> JobSettings:
        """Start the job over with another definition."""
        return self.rebuild(**self.of_topic(fields))

    def of_topic(self, fields: dict[str, Any]) -> dict[str, Any]:
        upstream = {"connection": "events", "topic": self.topic, **fields.pop("kafka", {})}
        return {"upstream": {"kafka": upstream}, "query": QUERY, "vnode_count": 16, **fields}

    def add(self, *values: Any, partition: int = 0) -> None:
        """Write records, and wait until they are there; a dictionary becomes JSON."""
        write(self.producer, self.topic, *values, partition=partition)

    def add_partitions(self, total: int) -> None:
        """Add partitions, and let the producer know of them."""
        self.kafka.add_partitions(self.topic, total)
        self.producer = self.kafka.producer()

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the view's rows."""
        return sorted(tuple(row) for row in self.view().collect())

    def rows_with_nulls(self) -> dict[tuple[int, int], str | None]:
        """Return the view's values by partition and offset, of which none may be there twice."""
        found = [tuple(row) for row in self.view().collect()]
        rows = {(partition, offset): value for partition, offset, value in found}
        assert len(rows) == len(found), "records are there twice"
        return rows


def write(producer: Producer, topic: str, *values: Any, partition: int = 0) -> None:
    """Write records, and wait until they are there."""
    for value in values:
        text = json.dumps(value) if isinstance(value, dict) else str(value)
        producer.produce(topic, text, partition=partition)
    assert producer.flush(30) == 0
