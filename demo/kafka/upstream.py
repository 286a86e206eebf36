"""The upstream of ``make demo-source``: a topic in a Kafka broker of the demo's own."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from confluent_kafka.admin import NewTopic

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.connections import variable_of
from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.folder import DemoError, Size, number_from_environment, program, short_path
from demo.job import write_job
from demo.kafka.broker import Broker, Quorum
from demo.kafka.records import PARTITIONS, SCHEMA, TOPIC, records, write_all
from demo.kafka.writer import RATE
from demo.processes import free_port
from demo.run import DemoRun
from demo.upstream import SEED, WRITER, Upstream

CONNECTION = "demo_events"
SERVER = "kafka"
PREFERRED_PORT = 19092
START_SECONDS = 60

_JOB = f"""\
kafka:
  connection: {CONNECTION}
  topic: {TOPIC}
  value:
    format: json
    schema: {SCHEMA}"""


class KafkaOrders(Upstream):
    """Orders as records of a topic. A record never changes, so the check reads up to where the view is."""

    title: ClassVar[str] = "The upstream: a Kafka topic that gets new records all the time"
    reading: ClassVar[Sequence[str]] = (
        "Each epoch reads the next records of every partition. Of one that it has read whole, it adds the new ones.",
        "A position has the number of all offsets, and then the offset of each partition.",
    )
    stay_command: ClassVar[str] = "make demo-source ARGS=--stay"
    query: ClassVar[str] = """\
SELECT partition, offset, timestamp, value.region, value.order_id, value.customer_id,
       CAST(value.amount * 100 AS BIGINT) AS cents, value.status, value.updated_at
FROM upstream
WHERE value.status IN ('open', 'paid', 'shipped')
"""
    key: ClassVar[Sequence[str]] = ("partition", "offset")
    totals: ClassVar[str] = """\
SELECT region, status, count(*) AS records, sum(cents) AS cents, max(updated_at) AS newest
FROM upstream
GROUP BY region, status
"""

    def __init__(self, run: DemoRun, size: Size) -> None:
        super().__init__(run, size)
        self._broker = Broker(
            run.folder.path / SERVER, free_port(PREFERRED_PORT), Quorum(free_port(PREFERRED_PORT + 1))
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The job's connection."""
        extra = {"bootstrap.servers": self._broker.servers(), "security.protocol": "PLAINTEXT"}
        return {variable_of(CONNECTION): json.dumps({"conn_type": "kafka", "extra": extra})}

    def write_job(self) -> None:
        """Write the job's file, and put its connection into the environment of this process."""
        write_job(self.run.folder, _JOB, self.size.rate_limit, self.query)
        os.environ.update(self.environment)

    def create(self) -> None:
        """Start the broker, and fill the topic."""
        terminal, broker = self.run.terminal, self._broker
        with terminal.step(f"starting Kafka in {short_path(broker.folder)}, on {broker.servers()}"):
            broker.format()
            self.run.servers.start(SERVER, broker.command)
            self._wait_for_broker()
        with terminal.step(f"writing {self.size.rows:,} records to the {PARTITIONS} partitions of {TOPIC}"):
            # The client has to live until it has the answer.
            admin = broker.admin()
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(START_SECONDS)
            self._fill()

    def _wait_for_broker(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not self._broker.answers():
            self.run.servers.require_alive()
            if time.monotonic() > until:
                raise DemoError(f"Kafka did not start within {START_SECONDS} s; see {self.run.servers.log(SERVER)}")

    def _fill(self) -> None:
        producer = self._broker.producer({"linger.ms": 50})
        write_all(producer, TOPIC, records(self.size.rows, np.random.default_rng(SEED)))

    def start_writer(self) -> None:
        """Start the writer."""
        rate = number_from_environment("DEMO_RECORDS_PER_SECOND", RATE, least=0.01)
        self.run.processes.start(
            WRITER,
            [
                *(sys.executable, "-m", "demo.kafka.writer", self._broker.servers(), "--rate", str(rate)),
                *("--first", str(self.size.rows), "--seed", str(SEED), "--report", str(self.run.folder.writer_report)),
            ],
        )
        self.run.terminal.say(
            f"a writer adds {text.rows(rate)} a second in transactions, and takes one transaction in twenty back"
        )

    def before_the_check(self, run_dag: Callable[[str], None]) -> None:
        """Do nothing: the topic can be read up to where the view is."""

    def check_command(self, status: JobStatus, view: str, query: Path) -> Sequence[str]:
        """Read the topic up to where the view is."""
        ends = _ends(status)
        return [
            *(sys.executable, "-m", "demo.kafka.check", self._broker.servers(), ends),
            *(view, str(query)),
        ]

    def as_of(self, status: JobStatus) -> str:
        """Name the topic and the offsets."""
        return f"the committed records of {TOPIC} up to the offsets {_ends(status)}"

    @property
    def places(self) -> Mapping[Path | str, str]:
        """The broker's data."""
        return {self._broker.folder: "the topic; its broker stops with the demo"}

    @property
    def commands_meanwhile(self) -> Sequence[str]:
        """What reads the job."""
        command, job = program("airflow-backfill"), short_path(self.run.folder.job)
        (variable, connection), *_ = self.environment.items()
        return (
            f"export {variable}='{connection}'",
            f"{command} status {job}    (shows each partition)",
            f"{command} watch {job}",
            f"{command} plan {job}",
        )

    @property
    def commands_afterwards(self) -> Sequence[str]:
        """What needs no broker."""
        return (
            f"cat {short_path(self.run.folder.job)}",
            "less docs/how-to/backfill-from-kafka.md    (for a topic of your own)",
        )


def _ends(status: JobStatus) -> str:
    """Return the offset of each partition that the view is at."""
    _, ends = str(status.upstream_version).split(", ")
    return ends
