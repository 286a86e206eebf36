"""
Asks a Kafka cluster questions, for everything that needs no Spark, and says what its errors mean.

librdkafka tries on its own until a request's time is over, and reports in callbacks why it has no connection. So these
are looked at while an answer is awaited: no password becomes right by waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_backfill_provider.core.errors import (
    BackfillError,
    InvalidJobError,
    KafkaRefusedError,
    KafkaUnavailableError,
)
from airflow_backfill_provider.sources.kafka.connection import KafkaConnection, kafka_connection

REQUEST_SECONDS = 15
"""How long one request may take."""

_ATTEMPTS = 4
_LOOK_SECONDS = 0.05
"""How often the reports of librdkafka are looked at."""

_LOGIN = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM}  # noqa: SLF001 - names
)

_LOG_LEVEL = 0
"""Errors are raised, so librdkafka need not write them to the standard error, too."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cluster:
    """
    A Kafka cluster.

    :param connection_id: id of an Airflow connection of the Kafka provider's type.
    """

    connection_id: str

    def ask(self, question: Callable[[Session], T]) -> T:
        """
        Connect and ask, again if the cluster does not answer.

        :param question: what is asked; it may be asked several times.
        :raises InvalidJobError: if the connection is wrong.
        :raises KafkaUnavailableError: if the cluster does not answer.
        :raises KafkaRefusedError: if it refuses the login or a request.
        """
        again = Retrying(
            retry=retry_if_exception_type(KafkaUnavailableError),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=stop_after_attempt(_ATTEMPTS),
            reraise=True,
        )
        return again(lambda: question(self._connect()))

    def _connect(self) -> Session:
        connection = kafka_connection(self.connection_id)
        reports: list[KafkaError] = []
        settings: dict[str, Any] = {**connection.librdkafka(), "error_cb": reports.append, "log_level": _LOG_LEVEL}
        try:
            return Session(connection, AdminClient(settings), reports)
        except KafkaException as error:
            raise InvalidJobError(
                f"connection {self.connection_id}: {connection.without_secrets(_of(error).str())}"
            ) from None


@dataclass(frozen=True, slots=True)
class Session:
    """
    A client, and what it reported about its connections.

    :param client: it makes the requests.
    """

    connection: KafkaConnection = field(repr=False)
    client: AdminClient
    reports: list[KafkaError]

    def answers(self, futures: Iterable[Future[T]]) -> list[T]:
        """
        Wait for the answers to requests.

        :raises KafkaException: if the cluster answers with an error that is about a topic.
        :raises KafkaUnavailableError: if it does not answer.
        :raises KafkaRefusedError: if it refuses the login.
        """
        asked = list(futures)
        until = time.monotonic() + REQUEST_SECONDS
        while wait(asked, timeout=_LOOK_SECONDS).not_done:
            self.client.poll(0)
            self._fail_fast()
            if time.monotonic() > until:
                raise self.unavailable(f"no answer within {REQUEST_SECONDS} s")
        try:
            return [future.result() for future in asked]
        except KafkaException as error:
            failure = _of(error)
            if failure.code() < 0 or failure.retriable():
                # Below zero are errors of librdkafka's own, such as a connection that broke.
                raise self.unavailable(failure.str()) from None
            raise

    def unavailable(self, reason: str) -> KafkaUnavailableError:
        """Return the error that a cluster does not answer, with the last report why."""
        last = next((report.str() for report in reversed(self.reports) if not _all_down(report)), "")
        protocol = self.connection.librdkafka().get("security.protocol")
        detail = "; ".join(dict.fromkeys(text for text in (reason, last) if text)) or (
            "every broker ends the connection without an answer; if they run, their listener may not speak "
            f"{protocol}: check the connection's security.protocol"
        )
        return KafkaUnavailableError(
            f"{self.connection.connection_id}: the Kafka cluster does not answer "
            f"({self.connection.without_secrets(detail)}); nothing is lost, try again"
        )

    def _fail_fast(self) -> None:
        for report in self.reports:
            if refused := self._refused(report):
                raise refused
        if any(_all_down(report) for report in self.reports):
            raise self.unavailable("")

    def _refused(self, report: KafkaError) -> BackfillError | None:
        text = self.connection.without_secrets(report.str())
        name = self.connection.connection_id
        if report.code() in _LOGIN:
            return KafkaRefusedError(
                f"{name}: the Kafka cluster refuses the login ({text}); check the connection's sasl.username, "
                "sasl.password and sasl.mechanism"
            )
        if report.code() == KafkaError._SSL and "certificate" in text:  # noqa: SLF001 - a name
            return KafkaRefusedError(
                f"{name}: TLS fails ({text}); check the connection's ssl.ca.*, ssl.certificate.* and host names"
            )
        return None


def _all_down(report: KafkaError) -> bool:
    return report.code() == KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - a name


def _of(error: KafkaException) -> KafkaError:
    found: KafkaError = error.args[0]
    return found
