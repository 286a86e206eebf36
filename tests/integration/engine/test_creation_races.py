"""A view is made once, whoever makes it at the same time, and an overtaken rebuild cannot empty the new one (I5)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_backfill_provider import crash_points
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.crash_points import CrashPoint
from airflow_backfill_provider.lake.delta_log import DeltaLog
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(lakehouse: Lakehouse) -> Lakehouse:
    """An upstream of thirty rows, and an engine that takes no turns, as on an object store."""
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    lakehouse.engine = UnlockedEngine(lakehouse.spark.newSession())
    return lakehouse


class Late(threading.Thread):
    """Somebody who stops before the view's table is made, until the others are done."""

    def __init__(self, lakehouse: Lakehouse, work: Callable[[Lakehouse], object]) -> None:
        super().__init__(daemon=True)
        self.stopped, self.go = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._work = work
        self._mine = Lakehouse(lakehouse.spark, lakehouse.folder)
        self._mine.engine = UnlockedEngine(lakehouse.spark.newSession())
        crash_points.install(self._wait)
        self.start()
        assert self.stopped.wait(timeout=300)

    def run(self) -> None:
        try:
            self._work(self._mine)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error
        finally:
            self.stopped.set()

    def _wait(self, point: CrashPoint) -> None:
        if threading.current_thread() is self and point == CrashPoint.BEFORE_CREATION_COMMIT:
            self.stopped.set()
            self.go.wait(timeout=300)

    def goes_on(self) -> None:
        self.go.set()
        self.join(timeout=300)
        assert not self.is_alive()


def made(lakehouse: Lakehouse) -> int:
    """Return how often the view's table was made."""
    log = DeltaLog(lakehouse.view_path)
    commits = [log.commit(version) for version in log.versions()]
    return sum(commit is not None and '"event": "create"' in (commit.user_metadata or "") for commit in commits)


def test_a_view_that_two_create_at_once_is_made_once(numbers: Lakehouse) -> None:
    late = Late(numbers, lambda mine: mine.create(rate_limit=10))
    numbers.create(rate_limit=10)
    numbers.epoch()
    late.goes_on()
    assert late.error is None or isinstance(late.error, BackfillError)
    assert made(numbers) == 1
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_two_who_create_at_the_same_moment_have_one_view(numbers: Lakehouse) -> None:
    """Both commit at once: who comes second finds the table made, or says by name that it was not the one."""
    late = Late(numbers, lambda mine: mine.create(rate_limit=10))
    early = Late(numbers, lambda mine: mine.create(rate_limit=10))
    for creator in (late, early):
        creator.go.set()
    for creator in (late, early):
        creator.join(timeout=300)
        assert creator.error is None or isinstance(creator.error, BackfillError), creator.error
    numbers.create(rate_limit=10)
    assert made(numbers) == 1
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_a_rebuild_that_was_overtaken_by_another_does_not_empty_its_view(numbers: Lakehouse) -> None:
    numbers.create(rate_limit=10)
    numbers.epoch()
    late = Late(numbers, lambda mine: mine.rebuild(rate_limit=10))
    numbers.rebuild(rate_limit=15)
    numbers.epoch()
    rows = numbers.view().count()
    late.goes_on()
    assert isinstance(late.error, BackfillError)
    assert "later rebuild" in str(late.error)
    assert numbers.view().count() == rows == 15
    numbers.finish()
    numbers.assert_equals_query("SELECT * FROM {upstream}")


def test_a_rebuild_that_died_before_its_view_was_made_is_completed_by_the_next_epoch(numbers: Lakehouse) -> None:
    """I2: the fence keeps the overtaken one out, and nobody else."""
    numbers.create(rate_limit=10)
    numbers.epoch()

    class DiedError(Exception):
        pass

    def die(point: CrashPoint) -> None:
        if point == CrashPoint.BEFORE_CREATION_COMMIT:
            raise DiedError

    for _ in range(2):
        crash_points.install(die)
        with pytest.raises(DiedError):
            numbers.rebuild(rate_limit=15)
        crash_points.install(None)
    numbers.finish()
    assert len(numbers.backfill.store.incarnations()) == 3
    numbers.assert_equals_query("SELECT * FROM {upstream}")
