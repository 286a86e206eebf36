"""Processes that die by SIGKILL at every named point, attempts side by side, and zombies (I2, I5)."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider import crash_points, mutations
from airflow_backfill_provider.core.barrier import EpochCommit
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.crash_points import CrashPoint
from airflow_backfill_provider.spark_settings import spark_conf, spark_environment
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine
from tests.ports import free_port

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


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server; a client that dies costs no JVM start."""
    port = free_port()
    folder = tmp_path_factory.mktemp("connect")
    conf = {
        **spark_conf("local[2]"),
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", "local[2]"]
    for name, value in conf.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, **spark_environment()},
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait_for(port, server, folder / "server.log")
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=60)


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


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


def test_killed_at_every_point_one_after_another(remote: str, numbers: Lakehouse) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    for point in POINTS:
        assert attempt(remote, numbers, point) == -signal.SIGKILL, point
    assert attempt(remote, numbers) == 0
    commits = numbers.backfill.store.commits()
    assert [commit.epoch for commit in commits] == [1, 2]
    assert commits[1].snapshot_read_row_count == 10
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


def test_killed_at_every_point_of_the_second_of_three_epochs(remote: str, numbers: Lakehouse) -> None:
    """I2: each try goes on with the epoch that died, and the last one carries what is left of the three."""
    mutations.throttle_job(5, store=numbers.backfill.store, requested_by="tester")
    for point in POINTS:
        assert attempt(remote, numbers, point, "3") == -signal.SIGKILL, point
        assert [commit.epoch for commit in numbers.backfill.store.commits()] == [1, 2]
    for _ in range(2):
        assert attempt(remote, numbers, "", "3") == 0
        barriers, commits = numbers.backfill.store.log()
        assert [commit.epoch for commit in commits] == [1, 2, 3, 4]
        assert [barrier.injected_by.is_task_run for barrier in barriers] == [False, True, True, True]
    assert [commit.snapshot_read_row_count for commit in commits] == [10, 5, 5, 5]
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


def test_killed_at_every_point_of_an_epoch_that_runs_share(remote: str, shared_numbers: Lakehouse) -> None:
    """I2 with vnodes on their own: changes, a part and the reports, each attempt dies one step later."""
    before = list(CrashPoint)[: list(CrashPoint).index(CrashPoint.BEFORE_SNAPSHOT_COMMIT)]
    changes = [point for point in before if point not in OF_REPLACEMENTS | OF_CREATIONS]
    reports = [CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT]
    part = [CrashPoint.BEFORE_SNAPSHOT_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT, *reports]
    commit = [point for point in POINTS if point.value.endswith(("state_commit", "log_commit"))]
    for point in [*changes, *reports, *part, *commit]:
        assert attempt(remote, shared_numbers, point) == -signal.SIGKILL, point
    assert attempt(remote, shared_numbers) == 0
    commits = shared_numbers.backfill.store.commits()
    assert [done.epoch for done in commits] == [1, 2]
    assert 0 < commits[1].snapshot_read_row_count <= 11
    shared_numbers.assert_truth()
    shared_numbers.finish()
    shared_numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert shared_numbers.view().count() == shared_numbers.view().select("id").distinct().count()


@pytest.mark.parametrize(
    "point", [CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.AFTER_STATE_COMMIT]
)
def test_died_between_two_commits_then_run_by_another(
    spark: SparkSession, numbers: Lakehouse, point: CrashPoint
) -> None:
    """I2: an attempt that is gone between two commits, the upstream going on, is completed by the next."""
    del spark

    class Died(BaseException):
        """Not an Exception, so that no handler of the product sees it."""

    def die(reached: CrashPoint) -> None:
        if reached == point:
            raise Died

    crash_points.install(die)
    with pytest.raises(Died):
        numbers.epoch()
    crash_points.install(None)
    numbers.sql("UPDATE {upstream} SET name = 'meanwhile' WHERE id % 3 = 0")
    commit = numbers.epoch()
    assert commit is not None
    assert (commit.epoch, commit.snapshot_read_row_count) == (2, 10)
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.parametrize(
    "point",
    [CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_REMOVAL_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT],
)
def test_killed_while_waiting_changes_are_applied(remote: str, hidden_numbers: Lakehouse, point: CrashPoint) -> None:
    """I2: keys are removed in one commit and their new rows appended in another, each once."""
    assert attempt(remote, hidden_numbers, point) == -signal.SIGKILL
    hidden_numbers.sql("UPDATE {upstream} SET name = 'meanwhile' WHERE id % 3 = 0")
    assert attempt(remote, hidden_numbers) == 0
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


BEFORE_A_COMMIT = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
]


@pytest.mark.parametrize("point", BEFORE_A_COMMIT[:3])
def test_second_run_overtakes_the_first(numbers: Lakehouse, point: CrashPoint) -> None:
    """I5: two runs of one epoch at once; the one that was stopped goes on and finds everything done."""
    barrier = numbers.inject()
    assert barrier is not None
    slow = UnlockedEngine(numbers.spark.newSession())
    first = Attempt(lambda: numbers.run(barrier, slow))
    first.stop_at(point)
    second = numbers.run(barrier, UnlockedEngine(numbers.spark.newSession()))
    first.go.set()
    first.join(timeout=300)
    assert first.error is None
    assert first.commit == second
    assert len(numbers.backfill.store.commits()) == 2
    numbers.assert_truth()


@pytest.mark.parametrize("point", BEFORE_A_COMMIT)
def test_zombie_wakes_up_after_its_successor(numbers: Lakehouse, point: CrashPoint) -> None:
    """I5: an attempt of epoch 2 goes on after epoch 3 was committed; it loses and doubles nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Attempt(lambda: numbers.run(barrier, UnlockedEngine(numbers.spark.newSession())))
    zombie.stop_at(point)
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


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.BEFORE_SNAPSHOT_COMMIT])
def test_zombie_wakes_up_after_a_rebuild(numbers: Lakehouse, point: CrashPoint) -> None:
    """I5: the rebuild uses up the old incarnation's transaction ids, so its zombie can write nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Attempt(lambda: numbers.run(barrier, UnlockedEngine(numbers.spark.newSession())))
    zombie.stop_at(point)
    numbers.engine = UnlockedEngine(numbers.spark.newSession())
    numbers.rebuild(rate_limit=12)
    numbers.epoch()
    zombie.go.set()
    zombie.join(timeout=300)
    assert not zombie.is_alive()
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_REMOVAL_COMMIT])
def test_zombie_wakes_up_between_two_commits_of_changes(hidden_numbers: Lakehouse, point: CrashPoint) -> None:
    """I5: whether its keys are removed or not, what a zombie had to append was appended by its successor."""
    barrier = hidden_numbers.inject()
    assert barrier is not None
    assert barrier.completes
    zombie = Attempt(lambda: hidden_numbers.run(barrier, UnlockedEngine(hidden_numbers.spark.newSession())))
    zombie.stop_at(point)
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


def test_zombie_that_removed_keys_wakes_up_after_a_rebuild(hidden_numbers: Lakehouse) -> None:
    """I5: the transaction ids of both commits of the changes are used up."""
    barrier = hidden_numbers.inject()
    assert barrier is not None
    zombie = Attempt(lambda: hidden_numbers.run(barrier, UnlockedEngine(hidden_numbers.spark.newSession())))
    zombie.stop_at(CrashPoint.BEFORE_CHANGES_COMMIT)
    hidden_numbers.engine = UnlockedEngine(hidden_numbers.spark.newSession())
    hidden_numbers.rebuild(rate_limit=None)
    hidden_numbers.epoch()
    zombie.go.set()
    zombie.join(timeout=300)
    assert not zombie.is_alive()
    hidden_numbers.assert_equals_query("SELECT * FROM {upstream}")
