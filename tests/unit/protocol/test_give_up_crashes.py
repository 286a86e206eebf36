"""Giving up an epoch: crashes, races, and who may still write."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    EpochGivenUpError,
    QueryFailedError,
)
from tests.dying import died, dies_at
from tests.unit.protocol import give_up_helpers
from tests.unit.protocol.give_up_helpers import fail, finish, heal, spoil
from tests.variants import exhaustive, mostly_exhaustive, mostly_exhaustive_combinations

places = give_up_helpers.places
vnodes = give_up_helpers.vnodes
backfilling = give_up_helpers.backfilling
dying = give_up_helpers.dying

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

OF_GIVING_UP = [
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_STATE_COMMIT,
    CrashPoint.AFTER_STATE_COMMIT,
    CrashPoint.BEFORE_LOG_COMMIT,
    CrashPoint.BEFORE_GIVING_UP,
]


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(
        OF_GIVING_UP, [CrashPoint.AFTER_CHUNK_FENCE, CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_GIVING_UP]
    ),
)
@pytest.mark.parametrize("healed", [exhaustive(False), True])
def test_giving_up_that_died_is_completed_by_the_next_attempt(dying, point, healed):
    """I2: also if the cause is gone by then, for example because a data file was restored."""
    dying.epoch()
    spoil(dying, *range(10))
    barrier = dying.inject()
    with dies_at(point):
        dying.run(barrier)
    if healed:
        heal(dying, *range(10))
    with pytest.raises(BackfillError, match="given up"):
        dying.run(dying.inject())
    dying.assert_truth()
    assert dying.store.commit_of(barrier.epoch).given_up
    heal(dying, *range(10))
    finish(dying)


@pytest.mark.parametrize(
    "point",
    mostly_exhaustive(OF_GIVING_UP, [CrashPoint.AFTER_CHUNK_FENCE]),
)
def test_two_that_give_up_at_once_leave_the_same(dying, point):
    dying.epoch()
    spoil(dying, *range(10))
    barrier = dying.inject()

    def meanwhile(reached):
        if reached is point:
            crash_points.install(None)
            fail_again(dying, barrier)

    crash_points.install(meanwhile)
    try:
        fail_again(dying, barrier)
    finally:
        crash_points.install(None)
    left = dying.store.pinned(barrier.epoch)
    assert left.given_up is not None
    assert len(dying.store.commits()) == 2
    dying.assert_truth()
    heal(dying, *range(10))
    finish(dying)


def fail_again(backfilling, barrier):
    with pytest.raises(BackfillError, match="given up"):
        backfilling.run(barrier)


ASLEEP = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
]


@pytest.mark.parametrize(
    ("point", "then"),
    mostly_exhaustive_combinations(
        product(ASLEEP, ["nothing", "an epoch", "a rebuild"]),
        [
            (CrashPoint.BEFORE_SNAPSHOT_COMMIT, "nothing"),
            (CrashPoint.BEFORE_CHANGES_COMMIT, "an epoch"),
            (CrashPoint.AFTER_CHANGES_COMMIT, "a rebuild"),
        ],
    ),
)
def test_an_attempt_that_slept_while_its_epoch_was_given_up_writes_nothing(dying, point, then):
    """I5: its data file was there, say, and another attempt's was not."""
    dying.epoch()
    dying.orders.change([0, 1, 2, 3, 4], amount=5)
    barrier = dying.inject()

    def meanwhile(reached):
        if reached is not point:
            return
        crash_points.install(None)
        engine = dying.engine()
        engine.refusal = QueryFailedError("for this one alone")
        with pytest.raises(QueryFailedError):
            protocol.run_epoch(barrier, store=dying.store, engine=engine, clock=dying.clock)
        if then == "an epoch":
            dying.epoch()
        elif then == "a rebuild":
            dying.rebuild()
            dying.epoch()

    crash_points.install(meanwhile)
    try:
        with pytest.raises(BackfillError):
            dying.run(barrier)
    finally:
        crash_points.install(None)
    dying.assert_truth()
    finish(dying)


@pytest.mark.parametrize("point", [CrashPoint.AFTER_SNAPSHOT_COMMIT, CrashPoint.BEFORE_STATE_COMMIT])
def test_what_an_attempt_wrote_before_the_fence_stays(backfilling, point):
    """Delta's log order decides: the epoch is not given up, or only what is not written of it."""
    backfilling.epoch()
    barrier = backfilling.inject()
    with dies_at(point):
        backfilling.run(barrier)
    engine = backfilling.engine()
    engine.refusal = QueryFailedError("for this one alone")
    with suppress(BackfillError):
        backfilling.run(barrier, engine)
    backfilling.assert_truth() if backfilling.store.commit_of(barrier.epoch) else None
    with suppress(EpochGivenUpError):
        backfilling.run(barrier)
    backfilling.assert_truth()
    assert backfilling.store.state().epoch == barrier.epoch
    finish(backfilling)


@pytest.mark.parametrize("order", [exhaustive((0, 1)), (1, 0)])
def test_of_a_shared_epoch_the_parts_that_are_read_stay(vnodes, order):
    backfilling = vnodes.restore()
    backfilling.epoch()
    barrier = backfilling.inject()
    assert len(barrier.parts) == 2
    backfilling.changes(barrier)
    backfilling.part(barrier, order[0])
    engine = backfilling.engine()
    engine.refusal = QueryFailedError("for this one alone")
    with pytest.raises(BackfillError):
        backfilling.part(barrier, order[1], engine)
    engine.refusal = None
    left = backfilling.store.pinned(barrier.epoch)
    assert left.parts == (barrier.parts[order[0]],)
    assert left.upstream == barrier.upstream
    assert backfilling.store.state().epoch == barrier.epoch
    backfilling.assert_truth()
    finish(backfilling)


@pytest.mark.exhaustive
def test_a_rebuild_after_giving_up_starts_over(backfilling):
    spoil(backfilling, *range(10))
    fail(backfilling)
    heal(backfilling, *range(10))
    backfilling.rebuild()
    finish(backfilling)


def test_an_ordinary_epoch_reaches_no_crash_point_of_giving_up(backfilling):
    """Only giving up an epoch reaches these points."""
    for point in (CrashPoint.BEFORE_FENCE, CrashPoint.BEFORE_GIVING_UP):
        assert not died(point, backfilling.epoch)
