"""A repair and the changes of its epoch are one commit, on real Spark and Delta (I7)."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.lake.log.delta_log import Commit, DeltaLog, stamp_of
from airflow_backfill_provider.spark.stamps import REPAIR
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark


class DiedError(Exception):
    """An attempt died."""


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """A finished view that somebody wrote to, and an upstream that has changed since."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(20)")
    lakehouse.create(table_properties={"delta.enableChangeDataFeed": "true"})
    lakehouse.finish()
    lakehouse.sql("UPDATE {view} SET name = 'wrong' WHERE id IN (1, 2)")
    lakehouse.sql("INSERT INTO {view} VALUES (3, 'twice'), (70, 'stray'), (71, 'stray')")
    lakehouse.sql("DELETE FROM {view} WHERE id = 4")
    lakehouse.change("UPDATE {upstream} SET name = 'changed' WHERE id IN (2, 5)")
    lakehouse.change("DELETE FROM {upstream} WHERE id = 6")
    lakehouse.change("INSERT INTO {upstream} VALUES (30, 'new'), (71, 'not stray')")
    return lakehouse


def writes(lakehouse: Lakehouse, after: int = -1) -> list[Commit]:
    """Return the view's commits after a version that changed rows."""
    log = DeltaLog(lakehouse.view_path)
    commits = [log.commit(version) for version in log.versions() if version > after]
    return [commit for commit in commits if commit is not None and commit.changes_data]


@pytest.mark.exhaustive
def test_a_repair_and_the_changes_of_its_epoch_are_one_commit(numbers: Lakehouse) -> None:
    """I7: a view on the view never sees the rows missing, nor the changes without the repair."""
    before = DeltaLog(numbers.view_path).newest().version
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", vnodes=["0-3"])
    numbers.epoch()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    (commit,) = writes(numbers, before)
    assert stamp_of(commit).get("part") == REPAIR
    feed = numbers.spark.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", commit.version)
    written = feed.load(numbers.view_path).filter("_change_type = 'insert'").collect()
    # The view had the others already. Of 3 it had two rows, and the right one of them stays.
    assert sorted(row["id"] for row in written) == [1, 2, 4, 5, 30, 71]


@pytest.mark.exhaustive
def test_chosen_keys_and_changes_of_other_keys_are_one_commit(numbers: Lakehouse) -> None:
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", keys=[[1], [3], [4], [70], [71]])
    before = DeltaLog(numbers.view_path).newest().version
    numbers.epoch()
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert len(writes(numbers, before)) == 1


@pytest.mark.exhaustive
def test_a_repair_dies_before_and_after_its_commit_and_a_zombie_wakes_up(numbers: Lakehouse) -> None:
    """I2, I5: no attempt writes twice, or removes what a later epoch wrote."""
    mutations.repair_job(store=numbers.backfill.store, requested_by="tester", vnodes=["0-3"])
    barrier = numbers.inject()
    assert barrier is not None
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: numbers.run(barrier, numbers.unlocked_engine()))
    other = numbers.unlocked_engine()
    for point in (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT):

        def die(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                raise DiedError

        crash_points.install(die)
        with pytest.raises(DiedError):
            numbers.run(barrier, other)
    crash_points.install(None)
    numbers.run(barrier, other)
    numbers.change("UPDATE {upstream} SET name = 'later' WHERE id IN (1, 7)")
    following = numbers.inject()
    assert following is not None
    numbers.run(following, other)
    zombie.ends()
    assert zombie.hung
    numbers.assert_equals_query("SELECT * FROM {upstream}")
    assert [stamp_of(commit).get("part") for commit in writes(numbers)].count(REPAIR) == 1
