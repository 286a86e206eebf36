"""Fixtures of the tests on a real Kafka broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.sources.kafka.cluster import Cluster
from demo.kafka.broker import HOST, Listener
from tests.certificates import Authority
from tests.integration.kafka.shop import TopicOfOrders
from tests.kafka_broker import KafkaBroker, kafka_broker
from tests.ports import free_port

PASSWORD = 'the reader\'s "password" \\ of the tests'

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signed the certificate of the broker."""
    return Authority(tmp_path_factory.mktemp("certificates"), "authority of the tests")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[KafkaBroker]:
    """A broker for all tests of this process: anybody may do everything, except for who logs in."""
    server = authority.issue("broker", host=HOST)
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": server.pem,
        "ssl.keystore.key": server.key_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.pem,
    }
    login = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f'{_PLAIN} required user_reader="{password}" user_stranger="{password}";',
        "scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
    }
    listeners = [
        Listener("SASL_PLAINTEXT", free_port(), login),
        Listener("SASL_SSL", free_port(), {**login, **tls}),
        Listener("SSL", free_port(), {**tls, "ssl.client.auth": "required"}),
    ]
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=client",
        # What compaction and retention leave is asked for soon after.
        "log.cleaner.backoff.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "100",
    }
    with kafka_broker(tmp_path_factory.mktemp("kafka") / "broker", listeners, settings) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    """The name of a topic of the test's own; the test makes it."""
    return f"orders_{next(_numbers)}"


@pytest.fixture
def orders(
    kafka: KafkaBroker, topic: str, spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> TopicOfOrders:
    """A job over a topic, which the test makes."""
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection())
    return TopicOfOrders(spark, lake, kafka, topic)


@pytest.fixture
def cluster(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The cluster, as a connection without a login reaches it."""
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection())
    return Cluster("events")
