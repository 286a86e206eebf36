"""
Processes that die by SIGKILL at every named point, attempts side by side, and zombies (I2, I5).

Each point and each kind of fault occurs here once; the fault campaign combines them (`docs/faults.md`).
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """A job in the middle of its backfill, with changes on either side of the position."""
    return begun(lakehouse)


@pytest.fixture
def shared_numbers(lakehouse: Lakehouse) -> Lakehouse:
    """The same under arrangement, with epochs that two task runs share."""
    return begun(lakehouse, strategy="arrangement", parallelism=2, vnode_count=4)


@pytest.fixture
def hidden_numbers(lakehouse: Lakehouse) -> Lakehouse:
    """A job whose next epoch is its last, with changes that waited for it."""
    begun(lakehouse, visibility="on_finish", strategy="no_shuffle").epoch()
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


def dies(remote: str, lakehouse: Lakehouse, point: str = "", *epochs: str) -> bool:
    """Run an attempt of the job's next epoch in a separate process, and return whether it died."""
    assert lakehouse.job is not None
    return is_killed(remote, lakehouse.job.state, point, *epochs)


OF_CREATIONS = {
    CrashPoint.AFTER_SUCCESSION_STATE,
    CrashPoint.AFTER_SUCCESSION_SETTINGS,
    CrashPoint.BEFORE_CREATION_COMMIT,
    CrashPoint.AFTER_CREATION_COMMIT,
}
OF_GIVING_UP = {
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_GIVING_UP,
}
OF_ARRANGEMENTS = {CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT}
OF_DATABASES = {
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_CLEAN_UP_COMMIT,
    CrashPoint.AFTER_CLEAN_UP_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
}
OF_REPLACEMENTS = {CrashPoint.AFTER_REMOVAL_COMMIT}
OF_SHARED_EPOCHS = {CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT}
NOT_OF_EVERY_EPOCH = OF_CREATIONS | OF_DATABASES | OF_GIVING_UP | OF_ARRANGEMENTS | OF_REPLACEMENTS | OF_SHARED_EPOCHS
POINTS = [point for point in CrashPoint if point not in NOT_OF_EVERY_EPOCH]
"""The points of an epoch under ``no_shuffle``, in one task run."""


def test_killed_at_every_point_one_after_another(spark_remote: str, numbers: Lakehouse) -> None:
    """I2: each attempt of the epoch dies one step later; the last one commits it, and nothing is lost or doubled."""
    for point in POINTS:
        assert dies(spark_remote, numbers, point), point
    assert not dies(spark_remote, numbers)
    commits = numbers.backfill.store.commits()
    assert [commit.epoch for commit in commits] == [1, 2]
    assert commits[1].snapshot_read_row_count == 10
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


@pytest.mark.exhaustive
def test_killed_in_the_second_of_three_epochs(spark_remote: str, numbers: Lakehouse) -> None:
    """I2: each try goes on with the epoch that died, and the last one runs the rest of the three."""
    mutations.throttle_job(5, store=numbers.backfill.store, requested_by="tester")
    for point in (CrashPoint.AFTER_PIN, CrashPoint.AFTER_STATE_COMMIT):
        assert dies(spark_remote, numbers, point, "3"), point
        assert [commit.epoch for commit in numbers.backfill.store.commits()] == [1, 2]
    for _ in range(2):
        assert not dies(spark_remote, numbers, "", "3")
        barriers, commits = numbers.backfill.store.log()
        assert [commit.epoch for commit in commits] == [1, 2, 3, 4]
        assert [barrier.injected_by.is_task_run for barrier in barriers] == [False, True, True, True]
    assert [commit.snapshot_read_row_count for commit in commits] == [10, 5, 5, 5]
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert numbers.view().count() == numbers.view().select("id").distinct().count()


@pytest.mark.exhaustive
def test_killed_at_the_points_of_an_epoch_that_task_runs_share(spark_remote: str, shared_numbers: Lakehouse) -> None:
    """I2 with a position for each vnode: each attempt dies one step later, at the points of such epochs only."""
    for point in sorted(OF_ARRANGEMENTS, reverse=True) + sorted(OF_SHARED_EPOCHS, reverse=True):
        assert dies(spark_remote, shared_numbers, point), point
    assert not dies(spark_remote, shared_numbers)
    commits = shared_numbers.backfill.store.commits()
    assert [done.epoch for done in commits] == [1, 2]
    assert 0 < commits[1].snapshot_read_row_count <= 11
    shared_numbers.assert_truth()
    shared_numbers.finish()
    shared_numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert shared_numbers.view().count() == shared_numbers.view().select("id").distinct().count()


@pytest.mark.exhaustive
def test_killed_while_waiting_changes_are_applied(spark_remote: str, hidden_numbers: Lakehouse) -> None:
    """I2: keys are removed in one commit and their new rows appended in another, each once."""
    assert dies(spark_remote, hidden_numbers, CrashPoint.AFTER_REMOVAL_COMMIT)
    hidden_numbers.sql("UPDATE {upstream} SET name = 'meanwhile' WHERE id % 3 = 0")
    assert not dies(spark_remote, hidden_numbers)
    hidden_numbers.assert_truth()
    hidden_numbers.finish()
    hidden_numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_second_run_overtakes_the_first(numbers: Lakehouse) -> None:
    """I5: two attempts at one epoch; the one that was stopped continues and finds everything done."""
    barrier = numbers.inject()
    assert barrier is not None
    slow = numbers.unlocked_engine()
    first = Asleep(CrashPoint.BEFORE_SNAPSHOT_COMMIT, lambda: numbers.run(barrier, slow))
    second = numbers.run(barrier, numbers.unlocked_engine())
    first.ends()
    assert first.hung
    assert first.error is None
    assert first.result == second
    assert len(numbers.backfill.store.commits()) == 2
    numbers.assert_truth()


@pytest.mark.exhaustive
def test_zombie_wakes_up_after_its_successor(numbers: Lakehouse) -> None:
    """I5: an attempt of epoch 2 continues after epoch 3 was committed; it loses and doubles nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: numbers.run(barrier, numbers.unlocked_engine()))
    other = numbers.unlocked_engine()
    numbers.run(barrier, other)
    numbers.sql("UPDATE {upstream} SET name = 'later' WHERE id < 20")
    numbers.sql("DELETE FROM {upstream} WHERE id = 2")
    following = numbers.inject()
    assert following is not None
    numbers.run(following, other)
    state = numbers.backfill.store.state()
    zombie.ends()
    assert zombie.hung
    assert numbers.backfill.store.state() == state
    assert [commit.epoch for commit in numbers.backfill.store.commits()] == [1, 2, 3]
    numbers.assert_truth()


def test_zombie_wakes_up_after_a_rebuild(numbers: Lakehouse) -> None:
    """I5: the rebuild uses up the old incarnation's transaction ids, so its zombie can write nothing."""
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Asleep(CrashPoint.BEFORE_SNAPSHOT_COMMIT, lambda: numbers.run(barrier, numbers.unlocked_engine()))
    numbers.engine = numbers.unlocked_engine()
    numbers.rebuild(rate_limit=12)
    numbers.epoch()
    zombie.ends()
    assert zombie.hung
    numbers.assert_truth()
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_zombie_wakes_up_between_two_commits_of_changes(hidden_numbers: Lakehouse) -> None:
    """I5: whether its keys are removed or not, what a zombie had to append was appended by its successor."""
    barrier = hidden_numbers.inject()
    assert barrier is not None
    assert barrier.completes
    zombie = Asleep(
        CrashPoint.AFTER_REMOVAL_COMMIT,
        lambda: hidden_numbers.run(barrier, hidden_numbers.unlocked_engine()),
    )
    other = hidden_numbers.unlocked_engine()
    hidden_numbers.run(barrier, other)
    hidden_numbers.sql("DELETE FROM {upstream} WHERE id = 8")
    following = hidden_numbers.inject()
    assert following is not None
    hidden_numbers.run(following, other)
    zombie.ends()
    assert zombie.hung
    hidden_numbers.assert_equals_query("SELECT * FROM {upstream}")
