"""
The settings of a connection to Kafka, for its two clients: librdkafka in Python, and the Java client in Spark.

A connection of Airflow's Kafka provider holds librdkafka's settings in its extras, and nothing else. Spark's options
have the names of the Java client after ``kafka.``. A setting without a counterpart there is refused, because one of the
two clients would ignore it. Settings for other uses of the connection, such as a consumer's group, have no effect here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.connections import ConnectionFields, connection_fields, variable_of

KIND = "kafka"
"""The type of the connections, as Airflow's provider names it."""

SERVERS = "bootstrap.servers"

_ALIASES = {
    "metadata.broker.list": SERVERS,
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}
"""Other names that librdkafka has for a setting."""

_AS_IT_IS = frozenset(
    """
    bootstrap.servers check.crcs client.dns.lookup client.id client.rack connections.max.idle.ms fetch.max.bytes
    fetch.min.bytes max.partition.fetch.bytes metadata.max.age.ms reconnect.backoff.max.ms reconnect.backoff.ms
    retry.backoff.max.ms retry.backoff.ms socket.connection.setup.timeout.ms
    """.split()
)
"""Settings that both clients know by one name."""

_RENAMED = {
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
"""librdkafka's name → the Java client's."""

_OF_CONSUMERS = frozenset(
    {"check.crcs", "fetch.max.bytes", "fetch.min.bytes", "fetch.wait.max.ms", "max.partition.fetch.bytes"}
)
"""Settings of what reads records, which is Spark."""

_SECURITY = frozenset(
    """
    sasl.mechanism sasl.password sasl.username security.protocol ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
    """.split()
)
"""Settings that the two clients have in different forms."""

_OF_OTHER_USES = frozenset(
    """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.num.messages batch.size
    compression.codec compression.level compression.type debug delivery.timeout.ms enable.auto.commit
    enable.auto.offset.store enable.idempotence enable.partition.eof error_cb group.id group.instance.id group.protocol
    heartbeat.interval.ms isolation.level linger.ms log_cb log_level log.connection.close
    max.in.flight max.in.flight.requests.per.connection max.poll.interval.ms message.max.bytes
    message.send.max.retries message.timeout.ms on_commit partition.assignment.strategy partitioner
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes
    queued.min.messages request.required.acks request.timeout.ms retries session.timeout.ms statistics.interval.ms
    stats_cb throttle_cb transaction.timeout.ms transactional.id
    """.split()
)
"""Settings of producers, of groups of consumers and of logs: this package does without them."""

_MECHANISMS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
"""The ways to log in → the Java class that does it."""

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SECRETS = frozenset({"sasl.password", "ssl.key.password", "ssl.key.pem"})

SECRET_OPTIONS = frozenset({"kafka.sasl.jaas.config", "kafka.ssl.keystore.key", "kafka.ssl.key.password"})
"""The options of Spark that hold secrets."""

_KEY_OF_JAVA = re.compile(r"-----BEGIN (?:ENCRYPTED )?PRIVATE KEY-----")
"""How a private key in PKCS #8 begins, the one form that the Java client reads."""

Read = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """
    A connection's settings under librdkafka's names, checked.

    :param connection_id: its id, for messages.
    """

    connection_id: str
    settings: Mapping[str, str] = field(repr=False)

    def librdkafka(self) -> dict[str, str]:
        """Return the settings of a client in Python that reads no records; they hold secrets."""
        return {name: value for name, value in self.settings.items() if name not in _OF_CONSUMERS}

    def spark(self, read: Read | None = None) -> dict[str, str]:
        """
        Return the options of a reader on Spark; they hold secrets.

        Certificates and keys are part of the options, so the files need to exist here alone.

        :param read: returns the text of a file.
        :raises InvalidJobError: if a file cannot be read, or the Java client cannot use it.
        """
        return {
            f"kafka.{name}": value
            for name, value in {
                **self._of_both(),
                **self._login(),
                **self._tls(read or _text_of),
            }.items()
        }

    def without_secrets(self, text: str) -> str:
        """Return a text in which the connection's secrets are hidden."""
        secrets = {self.settings[name] for name in _SECRETS & self.settings.keys()} - {""}
        for secret in sorted(secrets, key=len, reverse=True):  # one may be a part of another
            text = text.replace(secret, "***")
        return text

    def _of_both(self) -> dict[str, str]:
        common = {name: value for name, value in self.settings.items() if name in _AS_IT_IS}
        renamed = {java: self.settings[name] for name, java in _RENAMED.items() if name in self.settings}
        return {**common, **renamed, "security.protocol": self._protocol}

    @property
    def _protocol(self) -> str:
        return self.settings["security.protocol"]

    def _login(self) -> dict[str, str]:
        if not self._protocol.startswith("SASL"):
            return {}
        mechanism = self.settings["sasl.mechanism"]
        user, password = (_quoted(self.settings[name]) for name in ("sasl.username", "sasl.password"))
        return {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_MECHANISMS[mechanism]} required username={user} password={password};",
        }

    def _tls(self, read: Read) -> dict[str, str]:
        if not self._protocol.endswith("SSL"):
            return {}
        options: dict[str, str] = {}
        if "ssl.endpoint.identification.algorithm" in self.settings:
            algorithm = self.settings["ssl.endpoint.identification.algorithm"]
            options["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
        if authorities := self._pem("ssl.ca", read):
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
        certificate, key = self._pem("ssl.certificate", read), self._pem("ssl.key", read)
        if certificate and key:
            self._check_key(key)
            options |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": certificate,
                "ssl.keystore.key": key,
            }
            if password := self.settings.get("ssl.key.password"):
                options["ssl.key.password"] = password
        return options

    def _pem(self, name: str, read: Read) -> str | None:
        if text := self.settings.get(f"{name}.pem"):
            return text
        location = self.settings.get(f"{name}.location")
        if location is None:
            return None
        try:
            return read(location)
        except (OSError, UnicodeDecodeError):
            raise _invalid(
                self.connection_id, f"{name}.location is {location}, which is no readable file of text (PEM)"
            ) from None

    def _check_key(self, key: str) -> None:
        if not _KEY_OF_JAVA.search(key):
            raise _invalid(
                self.connection_id,
                "the private key is not in PKCS #8, the one form that Spark's client reads; convert it with openssl "
                "pkcs8 -topk8",
            )


def kafka_connection(connection_id: str) -> KafkaConnection:
    """
    Look a connection up.

    :raises InvalidJobError: if there is no such connection, it is of another type, or a setting is wrong.
    """
    fields = connection_fields(connection_id)
    if fields is None:
        raise InvalidJobError(
            f"upstream.kafka.connection: there is no connection {connection_id}; add it in Airflow, or set "
            f"{variable_of(connection_id)}"
        )
    return from_fields(connection_id, fields)


def from_fields(connection_id: str, fields: ConnectionFields) -> KafkaConnection:
    """
    Return the settings that a connection's fields hold.

    :raises InvalidJobError: if it is of another type, or a setting is wrong or has no counterpart in Spark's client. No
        value of a secret is quoted.
    """
    if fields.kind != KIND:
        raise InvalidJobError(
            f"connection {connection_id} is of type {fields.kind or 'unknown'}, not {KIND}; name a connection to Kafka"
        )
    given = {_ALIASES.get(name, name): _text(value) for name, value in fields.extra.items() if value is not None}
    settings = {name: value for name, value in given.items() if name not in _OF_OTHER_USES}
    if unknown := sorted(settings.keys() - _AS_IT_IS - _RENAMED.keys() - _SECURITY):
        raise _invalid(
            connection_id, f"{', '.join(unknown)}: Spark's client has no counterpart; remove it from the extras"
        )
    if not settings.get(SERVERS):
        raise _invalid(connection_id, f"the extras have no {SERVERS}, such as host1:9092,host2:9092")
    settings["security.protocol"] = _protocol(connection_id, settings.get("security.protocol", "PLAINTEXT"))
    _check_login(connection_id, settings)
    _check_tls(connection_id, settings)
    return KafkaConnection(connection_id, settings)


def _protocol(connection_id: str, written: str) -> str:
    protocol = written.upper()
    if protocol not in _PROTOCOLS:
        raise _invalid(connection_id, f"security.protocol is {written}, not one of {', '.join(_PROTOCOLS)}")
    return protocol


def _check_login(connection_id: str, settings: dict[str, str]) -> None:
    if not settings["security.protocol"].startswith("SASL"):
        return
    written = settings.get("sasl.mechanism", "GSSAPI")  # what librdkafka takes without one
    mechanism = written.upper()
    if mechanism not in _MECHANISMS:
        raise _invalid(
            connection_id, f"sasl.mechanism is {written}; supported are {', '.join(_MECHANISMS)}, and nothing else yet"
        )
    settings["sasl.mechanism"] = mechanism
    if missing := [name for name in ("sasl.username", "sasl.password") if not settings.get(name)]:
        raise _invalid(connection_id, f"{mechanism} needs {' and '.join(missing)}")


def _check_tls(connection_id: str, settings: Mapping[str, str]) -> None:
    for name in ("ssl.ca", "ssl.certificate", "ssl.key"):
        if f"{name}.pem" in settings and f"{name}.location" in settings:
            raise _invalid(connection_id, f"{name}.pem and {name}.location say the same; give one of them")
    certificate, key = (
        any(f"{name}.{form}" in settings for form in ("pem", "location")) for name in ("ssl.certificate", "ssl.key")
    )
    if certificate != key:
        raise _invalid(
            connection_id, "a client's certificate needs its private key: give ssl.certificate.* and ssl.key.*"
        )
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in {"https", "none"}:
        raise _invalid(connection_id, f"ssl.endpoint.identification.algorithm is {algorithm}, not https or none")


def _invalid(connection_id: str, reason: str) -> InvalidJobError:
    return InvalidJobError(f"connection {connection_id}: {reason}")


def _text(value: object) -> str:
    """Return a value from JSON as both clients write it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text_of(path: str) -> str:
    return Path(path).read_text(encoding="ascii")


def _quoted(text: str) -> str:
    """Return a text as a value of Java's login configuration (JAAS)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
