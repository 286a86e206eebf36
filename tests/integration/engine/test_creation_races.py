"""A view is made once, however many processes create it, and an overtaken rebuild cannot empty the new one (I5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from tests.dying import dies_at
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of thirty rows, and an engine that takes no turns, as on an object store."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    lakehouse.engine = lakehouse.unlocked_engine()
    return lakehouse


def late(lakehouse: Lakehouse, work: Callable[[Lakehouse], object]) -> Asleep:
    """Return a process that stops before it makes the view's table, until the others are done."""
    mine = Lakehouse(lakehouse.spark, lakehouse.folder, lakehouse.storage_options)
    mine.engine = lakehouse.unlocked_engine()
    asleep = Asleep(CrashPoint.BEFORE_CREATION_COMMIT, lambda: work(mine))
    assert asleep.hung
    return asleep


def made(lakehouse: Lakehouse) -> int:
    """Return how often the view's table was made."""
    log = DeltaLog(lakehouse.view_path, lakehouse.storage_options)
    commits = [log.commit(version) for version in log.versions()]
    return sum(commit is not None and '"event": "create"' in (commit.user_metadata or "") for commit in commits)


@pytest.mark.exhaustive
def test_a_view_that_two_processes_create_at_once_is_made_once(numbers: Lakehouse) -> None:
    other = late(numbers, lambda mine: mine.create(rate_limit=10))
    numbers.create(rate_limit=10)
    numbers.epoch()
    other.ends()
    assert made(numbers) == 1
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_two_creations_at_the_same_moment_make_one_view(numbers: Lakehouse) -> None:
    """Both commit at once: the second one finds the table made, or fails with a named error."""
    first = late(numbers, lambda mine: mine.create(rate_limit=10))
    second = late(numbers, lambda mine: mine.create(rate_limit=10))
    for creator in (first, second):
        creator.let_go()
    for creator in (first, second):
        creator.ends()
    numbers.create(rate_limit=10)
    assert made(numbers) == 1
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_a_rebuild_that_was_overtaken_by_another_does_not_empty_its_view(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=10)
    numbers.epoch()
    other = late(numbers, lambda mine: mine.rebuild(rate_limit=10))
    numbers.rebuild(rate_limit=15)
    numbers.epoch()
    rows = numbers.view().count()
    other.ends()
    assert "later rebuild" in str(other.error)
    assert numbers.view().count() == rows == 15
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_a_rebuild_that_died_before_its_view_was_made_is_completed_by_the_next_epoch(numbers: Lakehouse) -> None:
    """I2: the fence keeps out the overtaken rebuild, and nothing else."""
    numbers.create(rate_limit=10)
    numbers.epoch()

    for _ in range(2):
        with dies_at(CrashPoint.BEFORE_CREATION_COMMIT):
            numbers.rebuild(rate_limit=15)
    numbers.finish()
    assert len(numbers.backfill.store.incarnations()) == 3
    numbers.assert_equals_query("SELECT * FROM {upstream}")
