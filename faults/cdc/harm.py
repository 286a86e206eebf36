"""What is done to an epoch: it dies, or its process, its connections or the database's server do."""

from __future__ import annotations

import itertools
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable

from airflow_backfill_provider.core import crash_points, errors
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from faults.cdc.case_database import CaseDatabase
from faults.cdc.jobs import DrawnLakehouse
from tests.dying import Died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import is_killed

POINTS = (
    CrashPoint.AFTER_PIN,
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
)

MOST_SECONDS = 5.0
"""After so long, an attempt is mostly done."""


class Harm:
    """
    Draws faults.

    :param chance: decides on them.
    :param remote: the address of the Spark Connect server, for attempts in separate processes.
    :param done: counts what happened.
    """

    def __init__(self, chance: random.Random, database: CaseDatabase, remote: str, done: Counter[str]) -> None:
        self.chance = chance
        self.database = database
        self.remote = remote
        self.done = done

    def draw(self) -> Callable[[DrawnLakehouse], None]:
        """Return a fault, which attempts an epoch of a job; now and then none."""
        chance = self.chance.random()
        if chance < 0.25:
            return lambda _: None
        if chance < 0.45:
            return self._die
        if chance < 0.6:
            return self._kill_client
        if chance < 0.8:
            return self._kill_server
        return self._cut_connections

    def _die(self, job: DrawnLakehouse) -> None:
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

    def _kill_client(self, job: DrawnLakehouse) -> None:
        """Kill an attempt in a separate process by SIGKILL."""
        point = str(self.chance.choice(POINTS))
        if self.chance.random() < 0.5:
            point = f"{connect_client.AFTER}{self.chance.uniform(1.5, 1.5 + MOST_SECONDS):.2f}"
        assert job.job is not None
        try:
            if is_killed(self.remote, job.job.state, point):
                self.done["killed"] += 1
        except AssertionError as error:
            # It failed before it was killed, such as by DDL while it read.
            names = re.findall(r"core\.errors\.(\w+): ", str(error))
            if not (names and getattr(errors, names[-1]).retryable):
                raise
            self.done[names[-1]] += 1

    def _kill_server(self, job: DrawnLakehouse) -> None:
        """Kill the server in the middle of an attempt, and start it again."""
        down = self.chance.choice([0.0, 0.0, 1.0, 4.0])

        def kill() -> None:
            self.database.server.kill()
            time.sleep(down)
            self.database.server.start()

        self._during(job, kill, "server killed")

    def _cut_connections(self, job: DrawnLakehouse) -> None:
        """Let the server end connections of the package."""
        times = self.chance.choice([1, 3])

        def cut() -> None:
            with self.database.connect() as connection:
                for _ in range(times):
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE application_name = 'airflow_backfill' AND datname = current_database()"
                    )
                    time.sleep(0.3)

        self._during(job, cut, "connections cut")

    def _during(self, job: DrawnLakehouse, harm: Callable[[], None], what: str) -> None:
        """Do harm at a named point, or after a random time."""
        if self.chance.random() < 0.5:
            at, is_done = self.chance.choice(POINTS), threading.Event()

            def reach(point: CrashPoint) -> None:
                if point is at and not is_done.is_set():
                    is_done.set()
                    harm()

            crash_points.install(reach)
            try:
                self._attempt(job, f"{what} {at}")
            finally:
                crash_points.install(None)
            return
        timer = threading.Timer(self.chance.uniform(0.05, MOST_SECONDS), harm)
        timer.start()
        try:
            self._attempt(job, what)
        finally:
            timer.join()

    def _attempt(self, job: DrawnLakehouse, what: str) -> None:
        """Attempt an epoch, which may fail by a named error that a retry helps against."""
        try:
            job.epoch()
        except Died:
            self.done["died"] += 1
        except BackfillError as error:
            self.done[f"{type(error).__name__}"] += 1
            if not error.retryable:
                error.add_note(what)
                raise
