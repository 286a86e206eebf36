"""Logins and TLS on a real broker: what works, and what is refused how, without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from airflow_backfill_provider.core.errors import KafkaRefusedError
from airflow_backfill_provider.sources.kafka.cluster import Cluster
from airflow_backfill_provider.sources.kafka.topic import Topic
from tests.certificates import Authority
from tests.integration.kafka.conftest import PASSWORD
from tests.kafka_broker import KafkaBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def orders(kafka: KafkaBroker, topic: str) -> Topic:
    """A topic with a partition."""
    kafka.create_topic(topic)
    return Topic(Cluster("events"), topic)


def allow(kafka: KafkaBroker, user: str, topic: str, operation: AclOperation) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin = kafka.admin()
    for done in admin.create_acls([binding]).values():
        done.result(30)


def login(password: str = PASSWORD, user: str = "reader", mechanism: str = "PLAIN") -> dict[str, str]:
    return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}


def test_a_login_that_may_read_the_topic_reads_it(kafka: KafkaBroker, orders: Topic, monkeypatch) -> None:
    allow(kafka, "reader", orders.name, AclOperation.READ)
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_PLAINTEXT", **login()))
    assert list(orders.state().partitions) == [0]


def test_a_login_by_scram_over_tls_reads_it(
    kafka: KafkaBroker, orders: Topic, authority: Authority, monkeypatch
) -> None:
    admin = kafka.admin()
    secret = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    for done in admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("scram_reader", secret, PASSWORD.encode())]
    ).values():
        done.result(30)
    allow(kafka, "scram_reader", orders.name, AclOperation.READ)
    settings = login(user="scram_reader", mechanism="SCRAM-SHA-512")
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_SSL", **settings, ssl_ca_pem=authority.pem))
    assert list(orders.state().partitions) == [0]


def test_a_client_with_a_certificate_reads_it(
    kafka: KafkaBroker, orders: Topic, authority: Authority, monkeypatch
) -> None:
    client = authority.issue("client")
    tls = {"ssl_ca_pem": authority.pem, "ssl_certificate_pem": client.pem, "ssl_key_pem": client.key_pem}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SSL", **tls))
    assert list(orders.state().partitions) == [0]


def test_a_wrong_password_is_refused_and_never_shown(kafka: KafkaBroker, orders: Topic, monkeypatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_PLAINTEXT", **login("not-the-password")))
    with pytest.raises(
        KafkaRefusedError, match="events: the Kafka cluster refuses the login .*sasl.password"
    ) as refused:
        orders.state()
    assert "not-the-password" not in str(refused.value)


def test_a_broker_whose_authority_is_unknown_is_refused(
    kafka: KafkaBroker, orders: Topic, monkeypatch, tmp_path: Path
) -> None:
    tls = {"ssl_ca_pem": Authority(tmp_path, "another").pem}
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_SSL", **login(), **tls))
    with pytest.raises(KafkaRefusedError, match=r"events: TLS fails .*certificate.*check the connection's ssl\.ca"):
        orders.state()


@pytest.mark.parametrize("allowed", [None, AclOperation.DESCRIBE])
def test_a_login_without_the_right_is_refused_with_what_to_grant(
    kafka: KafkaBroker, orders: Topic, monkeypatch, allowed: AclOperation | None
) -> None:
    if allowed is not None:
        allow(kafka, "stranger", orders.name, allowed)
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", kafka.connection("SASL_PLAINTEXT", **login(user="stranger")))
    with pytest.raises(
        KafkaRefusedError, match=f"events: the login may not read topic {orders.name} .*grant it DESCRIBE and READ"
    ):
        orders.state()
