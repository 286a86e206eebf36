"""
A Kafka broker in a folder: on loopback, in KRaft mode, from the jars that ``make install`` fetches.

The demo and the tests use it.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from demo.folder import DemoError

HOST = "127.0.0.1"

_CONTROLLER = "CONTROLLER"
_PLAIN = "PLAINTEXT"

_JAVA = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
"""A small broker that starts soon."""

_SETTINGS = {
    # One broker has no copies, and with fewer partitions it starts sooner.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # It stops at once.
    "controlled.shutdown.enable": "false",
}

_LOG = """<Configuration>
  <Appenders><Console name="log"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="log"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class Listener:
    """
    A further way to reach a broker, with a login or encrypted.

    :param protocol: ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``. It is the listener's name, too.
    :param settings: its settings, without the listener's prefix.
    """

    protocol: str
    port: int
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Quorum:
    """
    What all brokers of a cluster know: its id, and its one controller.

    :param port: where the controller listens.
    :param node: the number of the broker that is the controller, too.
    """

    port: int
    node: int = 1
    cluster: str = field(default_factory=lambda: base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("="))


class Broker:
    """
    The data of a broker.

    :param folder: the data and the settings.
    :param port: where it listens without a login, also for the other brokers of its cluster.
    :param quorum: the cluster that it belongs to; the broker that is the controller, too, starts first.
    :param node: its number in the cluster.
    :param listeners: where it listens, too.
    :param settings: further settings of the broker.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        quorum: Quorum,
        *,
        node: int = 1,
        listeners: Sequence[Listener] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self._quorum = quorum
        self._listeners = [Listener(_PLAIN, port), *listeners]
        self._node = node
        self._settings = {**_SETTINGS, **(settings or {})}

    def format(self) -> None:
        """
        Make the data.

        :raises DemoError: if that fails, or the broker's jars are not there.
        """
        require_jars()
        self.folder.mkdir(parents=True)
        (self.folder / "log4j2.xml").write_text(_LOG, encoding="utf-8")
        self._file.touch(mode=0o600)  # it holds passwords
        lines = "".join(f"{name}={_escaped(value)}\n" for name, value in self._properties().items())
        self._file.write_text(lines, encoding="utf-8")
        # An id may begin with a dash.
        command = self._java("kafka.tools.StorageTool", "format", f"--cluster-id={self._quorum.cluster}")
        done = subprocess.run(
            [*command, "--config", str(self._file)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DemoError(f"Kafka's storage could not be made: {(done.stderr or done.stdout).strip()}")

    @property
    def command(self) -> list[str]:
        """The command that runs the broker in the foreground."""
        return self._java("kafka.Kafka", str(self._file))

    def servers(self, protocol: str = _PLAIN) -> str:
        """Return where clients find the broker, as in ``bootstrap.servers``."""
        (port,) = (listener.port for listener in self._listeners if listener.protocol == protocol)
        return f"{HOST}:{port}"

    def admin(self) -> AdminClient:
        """Return a client that may do everything."""
        # The broker starts within seconds.
        return AdminClient({"bootstrap.servers": self.servers(), "reconnect.backoff.max.ms": 200, "log_level": 0})

    def producer(self, settings: Mapping[str, Any] | None = None) -> Producer:
        """
        Return a client that writes.

        :param settings: further settings of librdkafka.
        """
        # A retry then neither doubles records nor brings them out of order.
        always = {"bootstrap.servers": self.servers(), "enable.idempotence": True, "log_level": 0}
        return Producer({**always, **(settings or {})})

    def answers(self, seconds: float = 1) -> bool:
        """Return whether the broker runs, or begins to within some seconds."""
        try:
            self.admin().list_topics(timeout=seconds)
        except KafkaException:
            return False
        return True

    @property
    def _file(self) -> Path:
        return self.folder / "server.properties"

    def _properties(self) -> dict[str, str]:
        controls = self._node == self._quorum.node
        listeners = [f"{listener.protocol}://{HOST}:{listener.port}" for listener in self._listeners]
        controller = f"{_CONTROLLER}://{HOST}:{self._quorum.port}"
        return {
            "process.roles": "broker,controller" if controls else "broker",
            "node.id": str(self._node),
            "controller.quorum.voters": f"{self._quorum.node}@{HOST}:{self._quorum.port}",
            "controller.listener.names": _CONTROLLER,
            "listeners": ",".join([*listeners, *([controller] if controls else [])]),
            "advertised.listeners": ",".join(listeners),
            # Kafka knows the controller's protocol by itself only if no listener has TLS or logins.
            "listener.security.protocol.map": ",".join(
                [
                    f"{_CONTROLLER}:{_PLAIN}",
                    *(f"{listener.protocol}:{listener.protocol}" for listener in self._listeners),
                ]
            ),
            "inter.broker.listener.name": _PLAIN,
            "log.dirs": str(self.folder / "data"),
            **{
                f"listener.name.{listener.protocol.lower()}.{name}": value
                for listener in self._listeners
                for name, value in listener.settings.items()
            },
            **self._settings,
        }

    def _java(self, *arguments: str) -> list[str]:
        log = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return [*_JAVA, log, "-cp", str(jars_folder() / "*"), *arguments]


def jars_folder() -> Path:
    """Return the folder of the broker's jars: ``DEMO_KAFKA_JARS``, or where ``make install`` puts them."""
    return Path(os.environ.get("DEMO_KAFKA_JARS") or Path(sys.prefix) / "share" / "airflow-backfill" / "kafka-broker")


def require_jars() -> None:
    """
    Check that the broker's jars are there.

    :raises DemoError: with what to do.
    """
    folder = jars_folder()
    if not any(folder.glob("*kafka_2.13-*.jar")):
        raise DemoError(
            f"Kafka's broker is needed, and {folder} has no jars of it; run make install, which fetches them"
        )


def _escaped(value: str) -> str:
    """Return a value as it is written in a file of properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
