"""A topic of a real Kafka broker, the job over it, and what its view has to hold, for DAGs that run on real Airflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
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

from tests.integration.airflow.orders_job import OrdersJob
from tests.integration.kafka.shop import write
from tests.kafka_broker import START_SECONDS, KafkaBroker

PASSWORD = "canary-password-c41e"
"""The password of the job's login, which may not appear anywhere."""

CONNECTION = "orders_topic"

PARTITIONS = 2


class TopicOrders(OrdersJob):
    """
    A topic of orders, and the file of a job over it.

    :param folder: where the view lies, and the job's file.
    :param name: the name of the topic and of the job.
    """

    def __init__(self, folder: Path, kafka: KafkaBroker, name: str) -> None:
        self.folder = folder
        super().__init__(folder / "topic job.yaml")
        self.name = name
        self.login = f"login_of_{name}"
        self._kafka = kafka
        self._written: dict[int, int] = {}
        kafka.create_topic(name, PARTITIONS)
        self._allow_login()
        self._producer = kafka.producer()

    def _allow_login(self) -> None:
        self.set_password(PASSWORD)
        of_topic = (ResourceType.TOPIC, self.name, ResourcePatternType.LITERAL)
        grant = AclBinding(*of_topic, f"User:{self.login}", "*", AclOperation.READ, AclPermissionType.ALLOW)
        admin = self._kafka.admin()
        for change in admin.create_acls([grant]).values():
            change.result(START_SECONDS)

    def set_password(self, password: str) -> None:
        """Give the login a password; its connection keeps the first one."""
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        upsertion = UserScramCredentialUpsertion(self.login, credential, password.encode())
        admin = self._kafka.admin()  # without a name it would be gone before the answer
        for change in admin.alter_user_scram_credentials([upsertion]).values():
            change.result(START_SECONDS)

    @property
    def connection(self) -> dict[str, Any]:
        """The fields of an Airflow connection of the job's login, of the type of the Kafka provider."""
        login = {
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": self.login,
            "sasl_password": PASSWORD,
        }
        fields = json.loads(self._kafka.connection("SASL_PLAINTEXT", **login))
        return {"conn_type": fields["conn_type"], "extra": json.dumps(fields["extra"])}

    def define(self, **changes: Any) -> dict[str, Any]:
        """Write the job's file, with some fields changed; returns the definition."""
        value = {"format": "json", "schema": "order_id BIGINT, amount INT"}
        definition = {
            "name": self.name,
            "upstream": {"kafka": {"connection": CONNECTION, "topic": self.name, "value": value}},
            "materialized_view": str(self.folder / self.name),
            "query": (
                "SELECT partition, offset, value.order_id, value.amount * 100 AS cents FROM upstream "
                "WHERE value.amount > 0"
            ),
            "rate_limit": 60,
            **changes,
        }
        self.file.write_text(yaml.safe_dump(definition), encoding="utf-8")
        return definition

    def append(self, first: int, last: int) -> None:
        """Write orders into all partitions in turn; every fifth one has the amount 0."""
        for number in range(first, last + 1):
            self._written[number] = number % 5
            order = {"order_id": number, "amount": number % 5}
            write(self._producer, self.name, order, partition=number % PARTITIONS)

    def expected(self) -> dict[int, int]:
        """The query over the topic as it is now."""
        return {number: amount * 100 for number, amount in self._written.items() if amount > 0}
