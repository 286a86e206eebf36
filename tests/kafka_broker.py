"""A Kafka broker of the tests' own: in a folder, on loopback, and in the process group of the tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from demo.kafka.broker import Broker, Listener, Quorum
from tests.ports import free_port

START_SECONDS = 60


class KafkaBroker(Broker):
    """
    A broker that can be started and stopped.

    :param folder: its data.
    """

    def __init__(
        self,
        folder: Path,
        quorum: Quorum,
        *,
        node: int = 1,
        listeners: Sequence[Listener] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, free_port(), quorum, node=node, listeners=listeners, settings=settings)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        for _ in range(START_SECONDS):
            if self.answers(seconds=1):
                return
            if self._process.poll() is not None:
                break
        self.kill()
        raise AssertionError(f"the broker did not start:\n{self.log.read_text(encoding='utf-8')[-4000:]}")

    def stop(self) -> None:
        """Ask the broker to end, and wait until it has."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(START_SECONDS)
            finally:
                self.kill()

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create_topic(
        self, name: str, partitions: int = 1, replicas: Sequence[Sequence[int]] | None = None, **settings: str
    ) -> None:
        """
        Make a topic.

        :param replicas: the brokers of each partition, the preferred leader first.
        :param settings: the topic's settings, with ``_`` instead of ``.``.
        """
        topic: dict[str, Any] = (
            {"num_partitions": partitions, "replication_factor": 1}
            if replicas is None
            else {"num_partitions": len(replicas), "replica_assignment": [list(nodes) for nodes in replicas]}
        )
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        admin = self.admin()
        admin.create_topics([NewTopic(name, config=config, **topic)])[name].result(START_SECONDS)
        # The controller has made it before the broker knows of it.
        known = Retrying(
            retry=retry_if_exception_type(KafkaException),
            stop=stop_after_delay(START_SECONDS),
            wait=wait_fixed(0.05),
            reraise=True,
        )
        known(lambda: admin.describe_topics(TopicCollection([name]))[name].result(START_SECONDS))

    def delete_topic(self, name: str) -> None:
        admin = self.admin()
        admin.delete_topics([name])[name].result(START_SECONDS)

    def add_partitions(self, name: str, total: int) -> None:
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, total)])[name].result(START_SECONDS)

    def delete_records(self, name: str, before: int, partition: int = 0) -> None:
        """Delete the records of a partition before an offset."""
        admin = self.admin()
        for done in admin.delete_records([TopicPartition(name, partition, before)]).values():
            done.result(START_SECONDS)

    def connection(self, protocol: str = "PLAINTEXT", **settings: str) -> str:
        """
        Return a connection as Airflow writes it.

        :param settings: further settings of librdkafka, with ``_`` instead of ``.``.
        """
        config = {setting.replace("_", "."): value for setting, value in settings.items()}
        extra = {"bootstrap.servers": self.servers(protocol), "security.protocol": protocol, **config}
        return json.dumps({"conn_type": "kafka", "extra": extra})


@contextmanager
def kafka_broker(
    folder: Path, listeners: Sequence[Listener] = (), settings: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """Make and start a broker that is a cluster of its own, and stop it at the end."""
    broker = KafkaBroker(folder, Quorum(free_port()), listeners=listeners, settings=settings)
    with _running([broker]):
        yield broker


@contextmanager
def two_brokers(folder: Path) -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """Make and start a cluster of two brokers; the first is the controller, so kill only the second."""
    quorum = Quorum(free_port())
    first, second = (KafkaBroker(folder / str(node), quorum, node=node) for node in (1, 2))
    with _running([first, second]):
        yield first, second


@contextmanager
def _running(brokers: Sequence[KafkaBroker]) -> Iterator[None]:
    with ExitStack() as stack:
        for broker in brokers:
            broker.format()
            stack.callback(broker.kill)
            broker.start()
        yield
