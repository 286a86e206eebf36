"""
Processes that die by SIGKILL at every named point, attempts side by side, and zombies (I2, I5).

Each point and each kind of fault is here once; the fault campaign has the product of them (`docs/faults.md`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill_provider import crash_points, mutations
from airflow_backfill_provider.core.barrier import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.crash_points import CrashPoint
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

pytestmark = pytest.mark.spark

CLIENT = Path(__file__).with_name("connect_client.py")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """A job in the middle of its backfill, with changes on either side of the position."""
    return begun(lakehouse)


@pytest.fixture
def shared_numbers(lakehouse: Lakehouse) -> Lakehouse:
    """The same under arrangement, with epochs that two runs share."""
    return begun(lakehouse, strategy="arrangement", parallelism=2, vnode_count=4)


@pytest.fixture
def hidden_numbers(lakehouse: Lakehouse) -> Lakehouse:
    """A job whose next epoch is its last, with changes that waited for it."""
    begun(lakehouse, visibility="on_finish").epoch()
    lakehouse.sql("UPDATE {upstream} SET name = 'once more' WHERE id % 8 = 0")
    return lakehouse


def begun(lakehouse: Lakehouse, **fields: Any) -> Lakehouse:
    """Create a job, run an epoch, and change the upstream all over."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    lakehouse.create(rate_limit=10, **fields)
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id % 4 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 9 = 3")
    lakehouse.sql("UPDATE {upstream} SET id = 12 WHERE id = 5")
    lakehouse.sql("INSERT INTO {upstream} VALUES (-1, 'first'), (99, 'last')")
    return lakehouse


def attempt(remote: str, lakehouse: Lakehouse, point: str = "", *epochs: str) -> int:
    """Run the client once and return its exit code."""
    assert lakehouse.job is not None
    done = subprocess.run(
        [sys.executable, str(CLIENT), remote, lakehouse.job.state, point, *epochs],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-2000:]
    return done.returncode


OF_CREATIONS = {CrashPoint.BEFORE_CREATION_COMMIT, CrashPoint.AFTER_CREATION_COMMIT}
OF_ARRANGEMENTS = {CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT}
OF_REPLACEMENTS = {CrashPoint.AFTER_REMOVAL_COMMIT}
OF_SHARED_EPOCHS = {CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT}
NOT_OF_EVERY_EPOCH = OF_CREATIONS | OF_ARRANGEMENTS | OF_REPLACEMENTS | OF_SHARED_EPOCHS
POINTS = [point for point in CrashPoint if point not in NOT_OF_EVERY_EPOCH]
"""What an epoch passes that reads in place, in one run."""


def test_killed_at_every_point_one_after_another(spark_remote: str, numbers: Lakehouse) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    for point in POINTS:
        assert attempt(spark_remote, numbers, point) == -signal.SIGKILL, point
    assert attempt(spark_remote, numbers) == 0
    commits = numbers.backfill.store.commits()
    assert [commit.epoch for commit in commits] == [1, 2]
    assert commits[1].snapshot_read_row_count == 10
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


def test_killed_in_the_second_of_three_epochs(spark_remote: str, numbers: Lakehouse) -> None:
    """I2: each try goes on with the epoch that died, and the last one carries what is left of the three."""
    mutations.throttle_job(5, store=numbers.backfill.store, requested_by="tester")
    for point in (CrashPoint.AFTER_PIN, CrashPoint.AFTER_STATE_COMMIT):
        assert attempt(spark_remote, numbers, point, "3") == -signal.SIGKILL, point
        assert [commit.epoch for commit in numbers.backfill.store.commits()] == [1, 2]
    for _ in range(2):
        assert attempt(spark_remote, numbers, "", "3") == 0
        barriers, commits = numbers.backfill.store.log()
        assert [commit.epoch for commit in commits] == [1, 2, 3, 4]
        assert [barrier.injected_by.is_task_run for barrier in barriers] == [False, True, True, True]
    assert [commit.snapshot_read_row_count for commit in commits] == [10, 5, 5, 5]
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


def test_killed_at_the_points_of_an_epoch_that_runs_share(spark_remote: str, shared_numbers: Lakehouse) -> None:
    """I2 with vnodes on their own: each attempt dies one step later, at what only such an epoch passes."""
    for point in sorted(OF_ARRANGEMENTS, reverse=True) + sorted(OF_SHARED_EPOCHS, reverse=True):
        assert attempt(spark_remote, shared_numbers, point) == -signal.SIGKILL, point
    assert attempt(spark_remote, shared_numbers) == 0
    commits = shared_numbers.backfill.store.commits()
    assert [done.epoch for done in commits] == [1, 2]
    assert 0 < commits[1].snapshot_read_row_count <= 11
    shared_numbers.assert_truth()
    shared_numbers.finish()
    shared_numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert shared_numbers.view().count() == shared_numbers.view().select("id").distinct().count()


def test_killed_while_waiting_changes_are_applied(spark_remote: str, hidden_numbers: Lakehouse) -> None:
    """I2: keys are removed in one commit and their new rows appended in another, each once."""
    assert attempt(spark_remote, hidden_numbers, CrashPoint.AFTER_REMOVAL_COMMIT) == -signal.SIGKILL
    hidden_numbers.sql("UPDATE {upstream} SET name = 'meanwhile' WHERE id % 3 = 0")
    assert attempt(spark_remote, hidden_numbers) == 0
    hidden_numbers.assert_truth()
    hidden_numbers.finish()
    hidden_numbers.assert_equals_query("SELECT * FROM {upstream}")


class Attempt(threading.Thread):
    """An attempt that stops at a crash point until it is let go."""

    def __init__(self, run: Callable[[], EpochCommit]) -> None:
        super().__init__(daemon=True)
        self.stopped, self.go = threading.Event(), threading.Event()
        self.commit: EpochCommit | None = None
        self.error: BackfillError | None = None
        self._run = run

    def run(self) -> None:
        try:
            self.commit = self._run()
        except BackfillError as error:
            self.error = error
        finally:
            self.stopped.set()

    def stop_at(self, point: CrashPoint) -> None:
        def wait(reached: CrashPoint) -> None:
            if threading.current_thread() is self and reached == point:
                self.stopped.set()
                self.go.wait(timeout=300)

        crash_points.install(wait)
        self.start()
        assert self.stopped.wait(timeout=300)


def test_second_run_overtakes_the_first(numbers: Lakehouse) -> None:
    """I5: two runs of one epoch at once; the one that was stopped goes on and finds everything done."""
    barrier = numbers.inject()
    assert barrier is not None
    slow = UnlockedEngine(numbers.spark.newSession())
    first = Attempt(lambda: numbers.run(barrier, slow))
    first.stop_at(CrashPoint.BEFORE_SNAPSHOT_COMMIT)
    second = numbers.run(barrier, UnlockedEngine(numbers.spark.newSession()))
    first.go.set()
    first.join(timeout=300)
    assert first.error is None
    assert first.commit == second
    assert len(numbers.backfill.store.commits()) == 2
    numbers.assert_truth()


def test_zombie_wakes_up_after_its_successor(numbers: Lakehouse) -> None:
    """I5: an attempt of epoch 2 goes on after epoch 3 was committed; it loses and doubles nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Attempt(lambda: numbers.run(barrier, UnlockedEngine(numbers.spark.newSession())))
    zombie.stop_at(CrashPoint.BEFORE_CHANGES_COMMIT)
    other = UnlockedEngine(numbers.spark.newSession())
    numbers.run(barrier, other)
    numbers.sql("UPDATE {upstream} SET name = 'later' WHERE id < 20")
    numbers.sql("DELETE FROM {upstream} WHERE id = 2")
    following = numbers.inject()
    assert following is not None
    numbers.run(following, other)
    state = numbers.backfill.store.state()
    zombie.go.set()
    zombie.join(timeout=300)
    assert not zombie.is_alive()
    assert numbers.backfill.store.state() == state
    assert [commit.epoch for commit in numbers.backfill.store.commits()] == [1, 2, 3]
    numbers.assert_truth()


def test_zombie_wakes_up_after_a_rebuild(numbers: Lakehouse) -> None:
    """I5: the rebuild uses up the old incarnation's transaction ids, so its zombie can write nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Attempt(lambda: numbers.run(barrier, UnlockedEngine(numbers.spark.newSession())))
    zombie.stop_at(CrashPoint.BEFORE_SNAPSHOT_COMMIT)
    numbers.engine = UnlockedEngine(numbers.spark.newSession())
    numbers.rebuild(rate_limit=12)
    numbers.epoch()
    zombie.go.set()
    zombie.join(timeout=300)
    assert not zombie.is_alive()
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_zombie_wakes_up_between_two_commits_of_changes(hidden_numbers: Lakehouse) -> None:
    """I5: whether its keys are removed or not, what a zombie had to append was appended by its successor."""
    barrier = hidden_numbers.inject()
    assert barrier is not None
    assert barrier.completes
    zombie = Attempt(lambda: hidden_numbers.run(barrier, UnlockedEngine(hidden_numbers.spark.newSession())))
    zombie.stop_at(CrashPoint.AFTER_REMOVAL_COMMIT)
    other = UnlockedEngine(hidden_numbers.spark.newSession())
    hidden_numbers.run(barrier, other)
    hidden_numbers.sql("DELETE FROM {upstream} WHERE id = 8")
    following = hidden_numbers.inject()
    assert following is not None
    hidden_numbers.run(following, other)
    zombie.go.set()
    zombie.join(timeout=300)
    assert not zombie.is_alive()
    hidden_numbers.assert_equals_query("SELECT * FROM {upstream}")
