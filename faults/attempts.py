"""An attempt of an epoch that dies, or whose process does, or during which something else happens."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from tests.dying import Died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse

MOST_SECONDS = 5.0
"""After so long, an attempt is mostly done."""

MOST_FAILURES = 8
"""The most attempts that may fail one after the other."""

Job = TypeVar("Job", bound=Lakehouse)


class HarmedAttempts(Generic[Job]):
    """
    Attempts epochs of jobs, and does harm meanwhile.

    :param chance: decides on the harm.
    :param points: the crash points that epochs pass.
    :param remote: the address of the Spark Connect server, for attempts in separate processes.
    :param done: counts what happened.
    """

    killed: ClassVar[str] = "killed"
    """What a process that was killed counts as."""

    def __init__(self, chance: random.Random, points: Sequence[CrashPoint], remote: str, done: Counter[str]) -> None:
        self.chance = chance
        self.points = points
        self.remote = remote
        self.done = done

    def die(self, job: Job) -> None:
        """Die at a point."""
        at, skipped = self.chance.choice(self.points), self.chance.choice([0, 0, 1])
        seen = itertools.count()

        def die(point: CrashPoint) -> None:
            if point is at and next(seen) == skipped:
                raise Died(point)

        crash_points.install(die)
        try:
            self.attempt(job, f"died {at}")
        finally:
            crash_points.install(None)

    def kill_client(self, job: Job) -> None:
        """Kill an attempt in a separate process by SIGKILL; its Spark lives on, and may still write."""
        point = str(self.chance.choice(self.points))
        if self.chance.random() < 0.5:
            point = f"{connect_client.AFTER}{self.chance.uniform(1.5, 1.5 + MOST_SECONDS):.2f}"
        assert job.job is not None
        try:
            if is_killed(self.remote, job.job.state, point):
                self.done[self.killed] += 1
        except AssertionError as error:
            # It failed before it was killed, such as by DDL while it read.
            names = re.findall(r"core\.errors\.(\w+): ", str(error))
            if not (names and getattr(errors, names[-1]).retryable):
                raise
            self.done[names[-1]] += 1

    def during(self, job: Job, harm: Callable[[], None], what: str) -> None:
        """Do harm at a named point, or after a random time."""
        if self.chance.random() < 0.5:
            at, is_done = self.chance.choice(self.points), threading.Event()

            def reach(point: CrashPoint) -> None:
                if point is at and not is_done.is_set():
                    is_done.set()
                    harm()

            crash_points.install(reach)
            try:
                self.attempt(job, f"{what} {at}")
            finally:
                crash_points.install(None)
            return
        timer = threading.Timer(self.chance.uniform(0.05, MOST_SECONDS), harm)
        timer.start()
        try:
            self.attempt(job, what)
        finally:
            timer.join()

    def until_committed(self, job: Job) -> None:
        """Run an epoch until an attempt commits it."""
        for attempt in itertools.count():
            try:
                job.epoch()
                break
            except BackfillError as error:
                self.done[type(error).__name__] += 1
                if not error.retryable or attempt > MOST_FAILURES:
                    raise
                time.sleep(0.5)

    def attempt(self, job: Job, what: str) -> bool:
        """Attempt an epoch, which may fail by a named error that a retry helps against; return whether it died."""
        try:
            job.epoch()
        except Died:
            return True
        except BackfillError as error:
            self.done[type(error).__name__] += 1
            if not error.retryable:
                error.add_note(what)
                raise
        return False
