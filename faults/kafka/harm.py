"""What is done to an epoch: it dies, or its process, its Spark or the broker does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from faults.attempts import HarmedAttempts
from faults.campaign import WrongError
from faults.kafka.jobs import TopicJob
from tests.integration.engine.test_crash_points import POINTS
from tests.kafka_broker import KafkaBroker

DRIVER_SECONDS = (7.0, 25.0)
"""When a Spark of its own dies: while it starts, while it runs an epoch, or never."""

_CHECKOUT = Path(__file__).parents[2]
_MAIN = "from airflow_backfill_provider.cli.main import main; main()"


class Harm(HarmedAttempts[TopicJob]):
    """
    Draws faults.

    :param chance: decides on them.
    :param remote: the address of the Spark Connect server, for attempts in separate processes.
    :param done: counts what happened.
    """

    killed: ClassVar[str] = "client killed"

    def __init__(self, chance: random.Random, broker: KafkaBroker, remote: str, done: Counter[str]) -> None:
        super().__init__(chance, POINTS, remote, done)
        self.broker = broker

    def draw(self) -> Callable[[TopicJob], None]:
        """Return a fault, which attempts an epoch of a job; now and then none."""
        chance = self.chance.random()
        if chance < 0.2:
            return lambda _: None
        if chance < 0.45:
            return self.die
        if chance < 0.65:
            return self.kill_client
        if chance < 0.75:
            return self._kill_driver
        return self._kill_broker

    def _kill_driver(self, job: TopicJob) -> None:
        """Kill a command line with a Spark of its own by SIGKILL, the driver's JVM included."""
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "run", str(job.definition), "--max-epochs", "2", "--master", "local[1]"],
            env={**os.environ, "PYTHONPATH": str(_CHECKOUT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, told = process.communicate(timeout=self.chance.uniform(*DRIVER_SECONDS))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            self.done["driver killed"] += 1
            return
        if process.returncode:
            raise WrongError(f"the command line ended by {process.returncode}: {told[-2000:]}")
        self.done["driver ended"] += 1

    def _kill_broker(self, job: TopicJob) -> None:
        """Kill the broker in the middle of an attempt, and start it again."""
        down = self.chance.choice([0.0, 0.0, 1.0, 4.0, 12.0])

        def kill() -> None:
            self.broker.kill()
            time.sleep(down)
            self.broker.start()

        self.during(job, kill, "broker killed")

    def attempt(self, job: TopicJob, what: str) -> bool:
        """Attempt an epoch, and count what is done to it."""
        self.done[what.split(maxsplit=1)[0]] += 1
        return super().attempt(job, what)
