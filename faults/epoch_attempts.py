"""The attempts of an epoch that was pinned: some die, hang or are killed first, and some epochs are run once more."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.shapes.writers import newest_version
from tests.connect_server import address_of
from tests.dying import died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

POINTS = (
    *(CrashPoint.AFTER_PIN, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT),
    *(CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT, CrashPoint.AFTER_REMOVAL_COMMIT),
    *(CrashPoint.BEFORE_SNAPSHOT_COMMIT, CrashPoint.BEFORE_FILES_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT),
    *(CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT, CrashPoint.BEFORE_STATE_COMMIT),
    *(CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT),
)
"""Where attempts die, hang or are killed; an epoch passes some of them."""

_WAYS = (*("plain",) * 11, *("die",) * 5, *("hang",) * 2, "kill", *("replay",) * 2)
_MOST_SECONDS = 5.0


def newest_epoch(lakehouse: Lakehouse) -> tuple[EpochCommit, dict[str, int]]:
    """Return the newest committed epoch of a job, and the version of each upstream at which its window ends."""
    commit = lakehouse.backfill.store.commits()[-1]
    barrier = next(one for one in lakehouse.barriers() if one.epoch == commit.epoch)
    return commit, {window.relation: version_of(window.to_offset) for window in barrier.windows}


class EpochAttempts:
    """
    Runs epochs of a job, each to its end.

    :param lakehouse: the job with its engine.
    :param chance: decides on what happens to an attempt.
    :param inject: pins the next barrier, while an attempt of the one before hangs.
    """

    def __init__(self, lakehouse: Lakehouse, chance: random.Random, inject: Callable[[], Barrier | None]) -> None:
        self._lakehouse = lakehouse
        self._chance = chance
        self._inject = inject
        self._remote = address_of(lakehouse.spark)

    def run(self, barrier: Barrier) -> str:
        """Run a pinned epoch, and return in which way."""
        match self._chance.choice(_WAYS):
            case "die" as way:
                died(self._chance.choice(POINTS), lambda: self._attempt(barrier))
            case "kill" as way:
                assert self._lakehouse.job is not None
                after = f"{connect_client.AFTER}{self._chance.uniform(1, _MOST_SECONDS):.2f}"
                is_killed(self._remote, self._lakehouse.job.state, self._chance.choice((*map(str, POINTS), after)))
            case "hang" as way:
                self._overtaken(barrier)
            case way:
                pass
        self._attempt(barrier)
        if way == "replay":
            self._replay(barrier)
        return way

    def _attempt(self, barrier: Barrier, engine: SparkEngine | None = None) -> None:
        connect_client.run(barrier, self._lakehouse.backfill, engine or self._lakehouse.engine)

    def _overtaken(self, barrier: Barrier) -> None:
        """Let an attempt hang until another one has committed the epoch, and perhaps the next one, too."""
        engines = [UnlockedEngine(self._lakehouse.spark.newSession()) for _ in range(2)]
        asleep = Asleep(self._chance.choice(POINTS), lambda: self._attempt(barrier, engines[0]))
        self._attempt(barrier, engines[1])
        if self._chance.random() < 0.5 and (following := self._inject()):
            self._attempt(following, engines[1])
        asleep.ends()

    def _replay(self, barrier: Barrier) -> None:
        """Run a committed epoch again, which must write nothing."""
        view = Path(self._lakehouse.view_path)
        before = newest_version(view)
        self._attempt(barrier)
        if newest_version(view) != before:
            raise WrongError(f"I2: a replay of epoch {barrier.epoch} wrote to the view")
