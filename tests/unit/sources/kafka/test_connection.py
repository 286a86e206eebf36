"""One connection's settings for both clients: what each gets, what is refused, and that no secret shows."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.connections import ConnectionFields
from airflow_backfill_provider.sources.kafka.connection import (
    SECRET_OPTIONS,
    KafkaConnection,
    from_fields,
    kafka_connection,
)

SERVERS = {"bootstrap.servers": "host1:9092,host2:9092"}
LOGIN = {
    **SERVERS,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "reader",
    "sasl.password": "s3cret",
}
TLS = {**SERVERS, "security.protocol": "SSL"}
KEY = "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"


def connection(**extra: object) -> KafkaConnection:
    return from_fields("events", ConnectionFields(kind="kafka", extra=extra))


# --- what the clients get -------------------------------------------------------------------------


def test_a_connection_without_a_login_needs_the_servers_alone():
    found = connection(**SERVERS)
    assert found.librdkafka() == {**SERVERS, "security.protocol": "PLAINTEXT"}
    assert found.spark() == {
        "kafka.bootstrap.servers": "host1:9092,host2:9092",
        "kafka.security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("scram-sha-512", "scram.ScramLoginModule"),
    ],
)
def test_a_login_is_written_as_java_reads_it(mechanism, module):
    options = connection(**{**LOGIN, "sasl.mechanism": mechanism}).spark()
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == mechanism.upper()
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="reader" password="s3cret";'
    )


def test_no_password_can_leave_its_quotes():
    options = connection(**{**LOGIN, "sasl.password": 'a"; b \\ \n'}).spark()
    assert options["kafka.sasl.jaas.config"].endswith(r'password="a\"; b \\ \n";')


def test_other_names_of_a_setting_and_small_letters_are_understood():
    found = connection(
        **{
            "metadata.broker.list": "host:9092",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": "s3cret",
        }
    )
    assert found.librdkafka()["bootstrap.servers"] == "host:9092"
    assert found.librdkafka()["security.protocol"] == "SASL_PLAINTEXT"
    assert found.spark()["kafka.sasl.mechanism"] == "PLAIN"


def test_certificates_and_the_key_become_options_of_java():
    options = connection(
        **TLS,
        **{"ssl.ca.pem": "CA", "ssl.certificate.pem": "CERTIFICATE", "ssl.key.pem": KEY, "ssl.key.password": "s3cret"},
    ).spark()
    assert {name.removeprefix("kafka.ssl."): value for name, value in options.items() if ".ssl." in name} == {
        "truststore.type": "PEM",
        "truststore.certificates": "CA",
        "keystore.type": "PEM",
        "keystore.certificate.chain": "CERTIFICATE",
        "keystore.key": KEY,
        "key.password": "s3cret",
    }


def test_files_are_read_here_so_that_no_executor_needs_them():
    files = {"/ca.pem": "CA", "/me.pem": "CERTIFICATE", "/me.key": KEY}
    options = connection(
        **TLS,
        **{"ssl.ca.location": "/ca.pem", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.key"},
    ).spark(files.__getitem__)
    assert options["kafka.ssl.truststore.certificates"] == "CA"
    assert options["kafka.ssl.keystore.certificate.chain"] == "CERTIFICATE"
    assert options["kafka.ssl.keystore.key"] == KEY
    assert not any("/" in value for value in options.values() if value != KEY)


@pytest.mark.parametrize(("written", "java"), [("none", ""), ("https", "https")])
def test_the_check_of_host_names_is_the_same_for_both(written, java):
    options = connection(**TLS, **{"ssl.endpoint.identification.algorithm": written}).spark()
    assert options["kafka.ssl.endpoint.identification.algorithm"] == java


def test_numbers_and_other_names_of_java():
    found = connection(
        **SERVERS, **{"client.id": "backfill", "socket.timeout.ms": 5000, "fetch.wait.max.ms": 7, "check.crcs": True}
    )
    options = found.spark()
    assert options["kafka.client.id"] == "backfill"
    assert options["kafka.request.timeout.ms"] == "5000"
    assert options["kafka.fetch.max.wait.ms"] == "7"
    assert options["kafka.check.crcs"] == "true"
    # The client in Python reads no records.
    assert found.librdkafka().keys() == {"bootstrap.servers", "client.id", "security.protocol", "socket.timeout.ms"}


def test_settings_of_other_uses_have_no_effect():
    """Sensors and operators of Airflow's provider need some in the same connection."""
    found = connection(**SERVERS, **{"group.id": "others", "auto.offset.reset": "latest", "acks": "all"})
    assert found == connection(**SERVERS)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, "no bootstrap.servers"),
        ({**SERVERS, "security.protocol": "TLS"}, "security.protocol is TLS, not one of PLAINTEXT, SSL"),
        ({**LOGIN, "sasl.mechanism": "OAUTHBEARER"}, "sasl.mechanism is OAUTHBEARER; supported are PLAIN"),
        ({**SERVERS, "security.protocol": "SASL_SSL"}, "sasl.mechanism is GSSAPI"),
        ({**LOGIN, "sasl.password": ""}, "PLAIN needs sasl.password"),
        ({**TLS, "ssl.ca.pem": "CA", "ssl.ca.location": "/ca"}, "ssl.ca.pem and ssl.ca.location say the same"),
        ({**TLS, "ssl.certificate.pem": "CERTIFICATE"}, "needs its private key"),
        ({**TLS, "ssl.endpoint.identification.algorithm": "HTTP"}, "is HTTP, not https or none"),
        ({**TLS, "enable.ssl.certificate.verification": False}, "enable.ssl.certificate.verification: .*counterpart"),
        ({**TLS, "ssl.cipher.suites": "x", "ssl.crl.location": "y"}, "ssl.cipher.suites, ssl.crl.location: "),
        ({**SERVERS, "oauth_cb": "a.b"}, "oauth_cb: Spark's client has no counterpart"),
    ],
)
def test_what_one_of_the_clients_would_ignore_is_refused_by_name(extra, reason):
    with pytest.raises(InvalidJobError, match=f"connection events: .*{reason}") as refused:
        connection(**extra)
    assert "s3cret" not in str(refused.value)


def test_a_connection_of_another_type_is_refused():
    with pytest.raises(InvalidJobError, match="events is of type postgres, not kafka"):
        from_fields("events", ConnectionFields(kind="postgres", extra=SERVERS))


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(InvalidJobError, match="ssl.ca.location is .*/none.pem, which is no readable file"):
        connection(**TLS, **{"ssl.ca.location": str(tmp_path / "none.pem")}).spark()


def test_a_key_that_java_cannot_read_is_refused_with_what_to_do():
    key = "-----BEGIN RSA PRIVATE KEY-----\ns3cret\n"
    wrong = connection(**TLS, **{"ssl.certificate.pem": "CERTIFICATE", "ssl.key.pem": key})
    with pytest.raises(InvalidJobError, match="not in PKCS #8.*openssl pkcs8 -topk8") as refused:
        wrong.spark()
    assert "s3cret" not in str(refused.value)


# --- secrets --------------------------------------------------------------------------------------


def test_secrets_are_known_and_never_shown():
    found = connection(**LOGIN, **{"ssl.certificate.pem": "C", "ssl.key.pem": KEY, "ssl.key.password": "s3cret2"})
    options = found.spark()
    secret = {name for name, value in options.items() if "s3cret" in value or value == KEY}
    assert secret == SECRET_OPTIONS
    assert "s3cret" not in repr(found)
    assert found.without_secrets("bad s3cret2 and s3cret") == "bad *** and ***"


# --- where it comes from --------------------------------------------------------------------------


def test_it_is_looked_up_as_airflow_writes_it(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_EVENTS", json.dumps({"conn_type": "kafka", "extra": LOGIN}))
    assert kafka_connection("events") == connection(**LOGIN)


def test_a_connection_that_nothing_knows_is_named(monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_EVENTS", raising=False)
    with pytest.raises(InvalidJobError, match="there is no connection events; add it in Airflow, or set AIRFLOW_CONN"):
        kafka_connection("events")
