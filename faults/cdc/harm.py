"""What is done to an epoch: it dies, or its process, its connections or the database's server do."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from faults.attempts import HarmedAttempts
from faults.cdc.case_database import CaseDatabase
from faults.cdc.jobs import DrawnLakehouse

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


class Harm(HarmedAttempts[DrawnLakehouse]):
    """
    Draws faults.

    :param chance: decides on them.
    :param remote: the address of the Spark Connect server, for attempts in separate processes.
    :param done: counts what happened.
    """

    def __init__(self, chance: random.Random, database: CaseDatabase, remote: str, done: Counter[str]) -> None:
        super().__init__(chance, POINTS, remote, done)
        self.database = database

    def draw(self) -> Callable[[DrawnLakehouse], None]:
        """Return a fault, which attempts an epoch of a job; now and then none."""
        chance = self.chance.random()
        if chance < 0.25:
            return lambda _: None
        if chance < 0.45:
            return self.die
        if chance < 0.6:
            return self.kill_client
        if chance < 0.8:
            return self._kill_server
        return self._cut_connections

    def _kill_server(self, job: DrawnLakehouse) -> None:
        """Kill the server in the middle of an attempt, and start it again."""
        down = self.chance.choice([0.0, 0.0, 1.0, 4.0])

        def kill() -> None:
            self.database.server.kill()
            time.sleep(down)
            self.database.server.start()

        self.during(job, kill, "server killed")

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

        self.during(job, cut, "connections cut")

    def attempt(self, job: DrawnLakehouse, what: str) -> bool:
        """Attempt an epoch, and count those that died."""
        died = super().attempt(job, what)
        if died:
            self.done["died"] += 1
        return died
