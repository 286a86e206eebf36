"""
Keep adding records to the demo's topic: ``python -m demo.kafka.writer SERVERS``.

It writes transactions of some records each, and takes one in twenty back. What it takes back lies in the topic, but no
reader of committed records sees it.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from demo.kafka.records import TOPIC, records
from demo.orders_writer import Report, write_until_stopped

RATE = 40.0
BATCH = 20

_TAKEN_BACK = 0.05


class KafkaWriter:
    """
    Writes one transaction at a time.

    :param servers: where the broker is.
    :param seed: the same seed makes the same choices.
    """

    def __init__(self, servers: str, seed: int, first: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": servers, "transactional.id": "demo-writer", "linger.ms": 5, "log_level": 0}
        )
        self._producer.init_transactions()
        self._random = np.random.default_rng(seed)
        self._next = first
        self._report = Report()

    @property
    def report(self) -> Report:
        """The counts so far."""
        return self._report

    def commit(self) -> None:
        """Write some records as one transaction, or take them back."""
        self._producer.begin_transaction()
        for partition, record in records(BATCH, self._random, self._next):
            self._producer.produce(TOPIC, record, partition=partition)
        self._next += BATCH
        self._producer.flush()
        if self._random.random() < _TAKEN_BACK:
            self._producer.abort_transaction()
            return
        self._producer.commit_transaction()
        self.report.commits += 1
        self.report.inserted += BATCH
        self.report.now_at = f"order {self._next:,}"


def main() -> None:
    """Read the arguments and write."""
    parser = argparse.ArgumentParser(description="Keep adding records to a demo's topic, until Ctrl-C.")
    parser.add_argument("servers", help="where the broker is: HOST:PORT")
    parser.add_argument("--commits", type=int, help="stop after this number of transactions")
    parser.add_argument("--rate", type=float, default=RATE, help="records a second (%(default)g)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first order")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    done = write_until_stopped(
        KafkaWriter(arguments.servers, arguments.seed, arguments.first),
        commits=arguments.commits,
        pause=lambda: BATCH / arguments.rate,
        report=arguments.report,
    )
    print(f"transactions {done.commits}, records {done.inserted}")


if __name__ == "__main__":
    main()
