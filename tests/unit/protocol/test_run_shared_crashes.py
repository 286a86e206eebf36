"""Running epochs that several task runs share: crashes at every named point, concurrent attempts, and zombies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from tests.dying import dies_at
from tests.unit.protocol import run_helpers
from tests.unit.protocol.run_helpers import (
    OF_CREATIONS,
    OF_DATABASES,
    OF_GIVING_UP,
    OF_SHARED_EPOCHS,
    OF_SPARK,
    outcome,
    while_asleep_at,
)
from tests.variants import mostly_exhaustive

prepared_arrangement = run_helpers.prepared_arrangement
arranged = run_helpers.arranged
arranged_undisturbed = run_helpers.arranged_undisturbed

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

SHARED_POINTS = [
    point
    for point in CrashPoint
    if point not in {CrashPoint.AFTER_PIN, *OF_DATABASES, *OF_SPARK, *OF_CREATIONS, *OF_GIVING_UP}
]
OF_CHANGES = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_REPORT,
    CrashPoint.AFTER_REPORT,
]
OF_PARTS = [
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_REPORT,
    CrashPoint.AFTER_REPORT,
]
OF_THE_COMMIT = [CrashPoint.BEFORE_STATE_COMMIT, CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT]


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", [point for point in SHARED_POINTS if point not in OF_SHARED_EPOCHS])
def test_several_task_runs_complete_what_one_began(arranged, arranged_undisturbed, point):
    """I2: wherever the one task run died."""
    with dies_at(point):
        arranged.epoch()
    barrier = arranged.inject()
    arranged.changes(barrier)
    for part in (2, 0, 1):
        arranged.part(barrier, part)
    assert outcome(arranged) == arranged_undisturbed[2]


def test_every_task_run_of_a_shared_epoch_passes_its_points_in_order(arranged):
    """So that the tests below did die where they say."""
    passed = []
    barrier = arranged.inject()
    crash_points.install(passed.append)
    for step, points in (
        (lambda: arranged.changes(barrier), OF_CHANGES),
        (lambda: arranged.part(barrier, 1), OF_PARTS),
        (lambda: arranged.part(barrier, 2), OF_PARTS),
        (lambda: arranged.part(barrier, 0), [*OF_PARTS, *OF_THE_COMMIT]),
    ):
        step()
        assert passed == points
        passed.clear()


@pytest.mark.parametrize(
    "point", mostly_exhaustive(OF_CHANGES, [CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.BEFORE_REPORT])
)
def test_changes_that_died_anywhere_are_applied_by_the_next_try(arranged, arranged_undisturbed, point):
    """I2."""
    barrier = arranged.inject()
    with dies_at(point):
        arranged.changes(barrier)
    arranged.changes(barrier)
    for part in (0, 1, 2):
        arranged.part(barrier, part)
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(
        [*OF_PARTS, *OF_THE_COMMIT],
        [CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.AFTER_REPORT, CrashPoint.AFTER_STATE_COMMIT],
    ),
)
def test_the_last_part_that_died_anywhere_is_completed_by_the_next_try(arranged, arranged_undisturbed, point):
    """I2: also if it had reported and the epoch was not committed."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 2)
    with dies_at(point):
        arranged.part(barrier, 1)
    assert arranged.store.commit_of(2) is None
    assert arranged.part(barrier, 1).epoch == 2
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.exhaustive
def test_changes_that_are_tried_again_commit_what_the_last_part_left(arranged, arranged_undisturbed):
    """I2: all parts are reported, and the next attempt commits, whichever step it is."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 2)
    with dies_at(CrashPoint.BEFORE_STATE_COMMIT):
        arranged.part(barrier, 1)
    assert arranged.changes(barrier) == arranged.store.commit_of(2) is not None
    assert outcome(arranged) == arranged_undisturbed[2]


def test_parts_at_once_commit_the_epoch_once(arranged, arranged_undisturbed):
    """I5: those that report at the same moment may both be the last."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    with ThreadPoolExecutor(6) as threads:
        commits = list(threads.map(lambda part: arranged.part(barrier, part), [0, 1, 2, 2, 1, 0]))
    found = [commit for commit in commits if commit is not None]
    assert found
    assert found == [arranged.store.commit_of(2)] * len(found)
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(
        [*OF_PARTS, *OF_THE_COMMIT],
        [CrashPoint.BEFORE_SNAPSHOT_COMMIT, CrashPoint.AFTER_REPORT],
    ),
)
def test_a_part_that_wakes_up_after_its_epochs_successor_changes_nothing(arranged, arranged_undisturbed, point):
    """I5: a zombie returns the commit that the others made."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 1)

    def meanwhile():
        arranged.part(barrier, 2)
        arranged.epoch()

    while_asleep_at(point, meanwhile)
    assert arranged.part(barrier, 2) == arranged.store.commit_of(2)
    assert outcome(arranged) == arranged_undisturbed[3]


@pytest.mark.exhaustive
@pytest.mark.parametrize("point", OF_CHANGES)
def test_changes_that_wake_up_after_their_epochs_successor_change_nothing(arranged, arranged_undisturbed, point):
    """I5."""
    barrier = arranged.inject()
    while_asleep_at(point, lambda: (arranged.run(barrier), arranged.epoch()))
    arranged.changes(barrier)
    assert outcome(arranged) == arranged_undisturbed[3]


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", ["changes", "part"])
def test_a_step_that_wakes_up_after_its_epoch_was_committed_returns_the_commit(arranged, step):
    barrier = arranged.inject()
    if step == "part":
        arranged.changes(barrier)
    while_asleep_at(CrashPoint.BEFORE_REPORT, lambda: arranged.run(barrier))
    found = arranged.changes(barrier) if step == "changes" else arranged.part(barrier, 0)
    assert arranged.store.commit_of(2) is not None
    assert found == arranged.store.commit_of(2)


@pytest.mark.parametrize("point", mostly_exhaustive(OF_PARTS, [CrashPoint.AFTER_SNAPSHOT_COMMIT]))
def test_a_part_that_wakes_up_after_a_rebuild_is_refused(arranged, point):
    """I5: its incarnation is over."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    while_asleep_at(point, lambda: (arranged.rebuild(), arranged.epoch()))
    with suppress(BackfillError):
        assert arranged.part(barrier, 0) is None
    assert [commit.epoch for commit in arranged.store.commits()] == [1, 3]
    arranged.assert_truth()
    arranged.finish()
