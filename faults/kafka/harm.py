"""What is done to an epoch: it dies, or its process, its Spark or the broker does."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

from airflow_backfill_provider.core import crash_points, errors
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from faults.campaign import WrongError
from faults.kafka.jobs import TopicJob
from tests.dying import Died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import ROOT, is_killed
from tests.kafka_broker import KafkaBroker

POINTS = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
)

MOST_SECONDS = 5.0
"""After so long, an attempt is mostly done."""

DRIVER_SECONDS = (7.0, 25.0)
"""When a Spark of its own dies: while it starts, while it runs an epoch, or never."""

_MAIN = "from airflow_backfill_provider.cli.main import main; main()"


class Harm:
    """
    Draws faults.

    :param chance: decides on them.
    :param remote: the address of the Spark Connect server, for attempts in separate processes.
    :param done: counts what happened.
    """

    def __init__(self, chance: random.Random, broker: KafkaBroker, remote: str, done: Counter[str]) -> None:
        self.chance = chance
        self.broker = broker
        self.remote = remote
        self.done = done

    def draw(self) -> Callable[[TopicJob], None]:
        """Return a fault, which attempts an epoch of a job; now and then none."""
        chance = self.chance.random()
        if chance < 0.2:
            return lambda _: None
        if chance < 0.45:
            return self._die
        if chance < 0.65:
            return self._kill_client
        if chance < 0.75:
            return self._kill_driver
        return self._kill_broker

    def _die(self, job: TopicJob) -> None:
        """Die at a point."""
        at, skipped = self.chance.choice(POINTS), self.chance.choice([0, 0, 1])
        seen = itertools.count()

        def die(point: CrashPoint) -> None:
            if point is at and next(seen) == skipped:
                raise Died(point)

        crash_points.install(die)
        try:
            self._attempt(job, f"died {at}")
        finally:
            crash_points.install(None)

    def _kill_client(self, job: TopicJob) -> None:
        """Kill an attempt in a separate process by SIGKILL; its Spark lives on, and may still write."""
        point = str(self.chance.choice(POINTS))
        if self.chance.random() < 0.5:
            point = f"{connect_client.AFTER}{self.chance.uniform(1.5, 1.5 + MOST_SECONDS):.2f}"
        assert job.job is not None
        try:
            if is_killed(self.remote, job.job.state, point):
                self.done["client killed"] += 1
        except AssertionError as error:
            # It failed before it was killed.
            names = re.findall(r"core\.errors\.(\w+): ", str(error))
            if not (names and getattr(errors, names[-1]).retryable):
                raise
            self.done[names[-1]] += 1

    def _kill_driver(self, job: TopicJob) -> None:
        """Kill a command line with a Spark of its own by SIGKILL, the driver's JVM included."""
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "run", str(job.definition), "--max-epochs", "2", "--master", "local[1]"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
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

        if self.chance.random() < 0.5:
            at, is_done = self.chance.choice(POINTS), threading.Event()

            def reach(point: CrashPoint) -> None:
                if point is at and not is_done.is_set():
                    is_done.set()
                    kill()

            crash_points.install(reach)
            try:
                self._attempt(job, f"broker killed {at}")
            finally:
                crash_points.install(None)
            return
        timer = threading.Timer(self.chance.uniform(0.05, MOST_SECONDS), kill)
        timer.start()
        try:
            self._attempt(job, "broker killed")
        finally:
            timer.join()

    def _attempt(self, job: TopicJob, what: str) -> None:
        """Attempt an epoch, which may fail by a named error that a retry helps against."""
        self.done[what.split(maxsplit=1)[0]] += 1
        try:
            job.epoch()
        except Died:
            return
        except BackfillError as error:
            self.done[type(error).__name__] += 1
            if not error.retryable:
                error.add_note(what)
                raise
