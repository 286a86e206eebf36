"""
A producer that never rests: records, tombstones, and transactions that are committed, aborted or left open.

It keeps account of what the broker has acknowledged. If the broker dies during a commit, it asks until it knows what
became of the transaction, or takes note that it does not know.
"""

from __future__ import annotations

import json
import random
import threading
import time
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from faults.kafka.drawing import LATE, UNREADABLE
from tests.integration.kafka.producers import Records, note
from tests.kafka_broker import KafkaBroker

_SECONDS = 60
"""How long a request may take, over restarts of the broker."""

_KEYS = 12


class Writer(threading.Thread):
    """
    A producer in a thread of its own.

    :param seed: decides on what it writes.
    :param topic: the topic's name.
    :param garbage: the share of records that no job in JSON can read.
    :param any_time: whether the topic takes timestamps in the future.
    """

    def __init__(
        self, seed: str, broker: KafkaBroker, topic: str, partitions: int, garbage: float, *, any_time: bool
    ) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.partitions = partitions
        self.committed: Records = {}
        self.aborted: Records = {}
        self.unknown: Records = {}
        self.error: BaseException | None = None
        self._chance = random.Random(seed)
        self._garbage = garbage
        self._unreadable = UNREADABLE if any_time else [value for value in UNREADABLE if value != LATE]
        self._uncommitted: Records = {}
        self._is_open = False
        self._written = 0
        self._broker = broker
        self._settings: dict[str, Any] = {
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.max.ms": 300,
        }
        self._plain = broker.producer(self._settings)
        self._transactional = self._begin()
        self._turn = threading.RLock()
        self._runs, self._ends = threading.Event(), threading.Event()

    def run(self) -> None:
        """Write until it is told to end."""
        try:
            while not self._ends.is_set():
                if self._runs.wait(0.1):
                    with self._turn:
                        self._act()
                    time.sleep(self._chance.choice([0.01, 0.05, 0.3]))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self.error = error

    def fill(self, turns: int) -> None:
        """Write at once."""
        for _ in range(turns):
            self._act()

    def go(self) -> None:
        """Write from now on."""
        self._runs.set()

    def pause(self) -> None:
        """Write no more for now, and end what is open."""
        self._runs.clear()
        with self._turn:
            if self.error is not None:
                raise self.error
            if self._is_open:
                self._end(commits=self._chance.random() < 0.5)

    def stop(self) -> None:
        """Write no more."""
        self._ends.set()
        self.join()

    def _act(self) -> None:
        chance = self._chance.random()
        if self._is_open and chance < 0.4:
            self._end(commits=chance < 0.2)
        elif not self._is_open and chance < 0.5:
            self._transactional.begin_transaction()
            self._is_open = True
            self._write(self._transactional, self._uncommitted)
        if self._chance.random() < 0.8:
            self._write(self._plain, self.committed)

    def _write(self, producer: Producer, account: Records) -> None:
        for _ in range(self._chance.choice([1, 3, 10, 40])):
            self._written += 1
            value = self._value()
            # Zero is the present time.
            timestamp = time.time_ns() // 1000 if value == LATE else 0
            producer.produce(
                self.topic,
                value,
                timestamp=timestamp,
                key=f"key {self._chance.randrange(_KEYS)}",
                partition=self._chance.randrange(self.partitions),
                on_delivery=partial(note, account),
            )
        left = producer.flush(_SECONDS)
        assert left == 0, f"{left} records were not delivered within {_SECONDS} s"

    def _value(self) -> str | None:
        chance = self._chance.random()
        if chance < self._garbage:
            return self._chance.choice(self._unreadable)
        return None if chance > 0.9 else json.dumps({"text": f"value {self._written}"})

    def _end(self, *, commits: bool) -> None:
        """End the transaction, and note its records."""
        account = self._outcome(commits=commits)
        account |= self._uncommitted
        self._uncommitted, self._is_open = {}, False

    def _outcome(self, *, commits: bool) -> Records:
        """End the transaction; return the account that its records belong to."""
        end = self._transactional.commit_transaction if commits else self._transactional.abort_transaction
        until = time.monotonic() + _SECONDS
        while True:
            try:
                end(_SECONDS)
            except KafkaException as error:
                failure: KafkaError = error.args[0]
                if failure.retriable() and time.monotonic() < until:
                    continue
                if failure.txn_requires_abort():
                    end = self._transactional.abort_transaction
                    commits = False
                    continue
                # Such as a transaction that timed out, which the broker aborts, or a commit whose answer is lost.
                self._transactional = self._begin()
                return self.unknown if commits else self.aborted
            return self.committed if commits else self.aborted

    def _begin(self) -> Producer:
        producer = self._broker.producer(
            {**self._settings, "transactional.id": self.topic, "transaction.timeout.ms": 40_000}
        )
        producer.init_transactions(_SECONDS)
        return producer
