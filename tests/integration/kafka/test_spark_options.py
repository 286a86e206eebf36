"""The connection's settings in Spark's client: the same logins and certificates work there."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation
from pyspark.sql import SparkSession

from airflow_backfill_provider.sources.kafka.connection import kafka_connection
from tests.certificates import Authority
from tests.integration.kafka.conftest import PASSWORD
from tests.integration.kafka.test_security import allow, login
from tests.kafka_broker import KafkaBroker

pytestmark = pytest.mark.spark


@pytest.fixture
def written(kafka: KafkaBroker, topic: str) -> str:
    """A topic with two records."""
    kafka.create_topic(topic)
    producer = kafka.producer()
    for value in "ab":
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    return topic


def rows(spark: SparkSession, topic: str) -> list[str]:
    reader = spark.read.format("kafka").options(**kafka_connection("events").spark()).option("subscribe", topic)
    return [bytes(row.value).decode() for row in reader.load().sort("offset").collect()]


def test_without_a_login(kafka: KafkaBroker, written: str, spark: SparkSession, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection())
    assert rows(spark, written) == ["a", "b"]


def test_a_login_over_tls(
    kafka: KafkaBroker, written: str, spark: SparkSession, authority: Authority, monkeypatch
) -> None:
    """The password has quotes and a backslash."""
    assert '"' in PASSWORD
    allow(kafka, "reader", written, AclOperation.READ)
    tls = {"ssl_ca_location": str(authority.certificate)}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_SSL", **login(), **tls))
    assert rows(spark, written) == ["a", "b"]


@pytest.mark.exhaustive
def test_a_certificate_of_the_client(
    kafka: KafkaBroker, written: str, spark: SparkSession, authority: Authority, monkeypatch
) -> None:
    client = authority.issue("client")
    tls = {"ssl_ca_pem": authority.pem, "ssl_certificate_pem": client.pem, "ssl_key_pem": client.key_pem}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SSL", **tls))
    assert rows(spark, written) == ["a", "b"]
