"""Running epochs that crash at every named point, attempts that overlap, and zombies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.progress import InProgress
from tests.dying import dies_at
from tests.unit.protocol import run_helpers
from tests.unit.protocol.run_helpers import POINTS, outcome, while_asleep_at
from tests.variants import mostly_exhaustive

prepared = run_helpers.prepared
backfilling = run_helpers.backfilling
prepared_history = run_helpers.prepared_history
begun = run_helpers.begun
undisturbed = run_helpers.undisturbed

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_an_epoch_that_died_anywhere_is_completed_by_the_next_run(begun, undisturbed, point):
    """I2: the same rows, the same state, the same counts; nothing lost, nothing twice."""
    with dies_at(point):
        begun.epoch()
    begun.epoch()
    assert outcome(begun) == undisturbed[2]


def test_an_epoch_that_dies_at_one_point_after_the_other_is_completed_in_the_end(begun, undisturbed):
    """I2: once or many times; and what is written to the upstream meanwhile waits for the next epoch."""
    for point in POINTS:
        with dies_at(point):
            begun.epoch()
    begun.orders.add(50)
    begun.epoch()
    assert outcome(begun) == undisturbed[2]


def test_the_completing_epoch_is_completed_however_often_it_dies(backfilling):
    """docs/concepts/rules.md#finishing-happens-once: a finished job reports finished again."""
    backfilling.epoch()
    backfilling.epoch()
    for point in reversed(POINTS):
        if point is CrashPoint.AFTER_PIN and len(backfilling.store.barriers()) == 3:
            continue
        with dies_at(point):
            backfilling.epoch()
    (commit,) = backfilling.finish()
    assert (commit.epoch, commit.completed) == (3, True)
    assert backfilling.view.marked_finished == [3]
    assert protocol.finish_job(store=backfilling.store, requested_by="x").finished_epoch == 3


def test_every_named_point_is_passed_in_order(backfilling):
    """So that the tests above did die where they say."""
    passed = []
    crash_points.install(passed.append)
    for _ in range(2):
        backfilling.epoch()
        assert passed == POINTS
        passed.clear()


# --- attempts that overlap ------------------------------------------------------------------------


def test_concurrent_attempts_of_one_epoch_commit_it_once(begun, undisturbed):
    """I2 and I5: concurrently or not."""
    barrier = begun.inject()
    with ThreadPoolExecutor(4) as threads:
        commits = list(threads.map(begun.run, [barrier] * 4))
    assert commits == [commits[0]] * 4
    assert outcome(begun) == undisturbed[2]


AFTER_INJECTION = [point for point in POINTS if point is not CrashPoint.AFTER_PIN]


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(
        AFTER_INJECTION,
        [CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.AFTER_STATE_COMMIT],
    ),
)
def test_a_zombie_that_wakes_up_after_its_successors_changes_nothing(begun, undisturbed, point):
    """I5: it returns the commit of its epoch that the others made."""
    barrier = begun.inject()
    while_asleep_at(point, lambda: (begun.epoch(), begun.epoch()))
    commit = begun.run(barrier)
    assert commit == begun.store.commits()[1]
    assert outcome(begun) == undisturbed[3]


def rebuilt_meanwhile(begun, point):
    """Run epoch 2, which sleeps at a point while the job is rebuilt and reads its first chunk again."""
    barrier = begun.inject()

    def meanwhile():
        begun.rebuild()
        begun.epoch()

    while_asleep_at(point, meanwhile)
    return begun.run(barrier)


def assert_nothing_happened_to_the_rebuilt(backfilling):
    assert set(backfilling.store.state().vnodes) == {InProgress((4,), 4)}, "orders 0, 1, 2 and 4 are left"
    backfilling.assert_truth()
    assert backfilling.inject().epoch == 4


AFTER_STATE = {CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT}


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(
        [point for point in AFTER_INJECTION if point not in AFTER_STATE],
        [CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.BEFORE_STATE_COMMIT],
    ),
)
def test_a_zombie_that_wakes_up_after_a_rebuild_is_refused(begun, point):
    """I5: its incarnation is over."""
    with pytest.raises(BackfillError):
        rebuilt_meanwhile(begun, point)
    assert [commit.epoch for commit in begun.store.commits()] == [1, 3]
    assert_nothing_happened_to_the_rebuilt(begun)


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", sorted(AFTER_STATE))
def test_a_zombie_that_had_committed_before_a_rebuild_may_only_say_so(begun, point):
    """I5: the log gets the record of an epoch that was done, of an incarnation that is over."""
    assert rebuilt_meanwhile(begun, point).epoch == 2
    first, second, third = begun.store.commits()
    assert first.incarnation == second.incarnation != third.incarnation
    assert_nothing_happened_to_the_rebuilt(begun)


def test_an_injector_that_falls_asleep_returns_the_epoch_and_its_commit(backfilling):
    while_asleep_at(CrashPoint.AFTER_PIN, backfilling.epoch)
    injection = backfilling.ask()
    assert injection.barrier is not None
    assert injection.barrier.epoch == 1
    assert injection.commit == backfilling.store.commits()[0]


def test_an_attempt_that_fails_because_it_was_overtaken_succeeds(backfilling):
    """It failed because of what its successor did."""
    barrier = backfilling.inject()
    engine = backfilling.engine()
    execute = engine.run_epoch

    def overtaken(*arguments, **options):
        backfilling.epoch()
        backfilling.epoch()
        return execute(*arguments, **options)

    engine.run_epoch = overtaken
    assert backfilling.run(barrier, engine) == backfilling.store.commits()[0]
    backfilling.assert_truth()
