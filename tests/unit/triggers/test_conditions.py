"""What a sensor waits for: one look at a job's records, which are given here as values."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_backfill_provider.core.errors import JobCancelledError, JobNotCreatedError, ViewDiffersError
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.triggers.conditions import (
    EpochCommitted,
    Finished,
    ProgressAtLeast,
    Verified,
    VnodesCompleted,
    observe,
)
from tests.builders import barrier_of, commit_of, compared_of, pinned_verification_of, settings_of, window_of

SETTINGS = settings_of()
PROGRESS = (Completed(None, 0), Completed((7,), 3), InProgress((9,), 2), NotStarted())


class Verifications:
    """The finished verifications of incarnations."""

    def __init__(self, **newest: Verification) -> None:
        self.newest = newest

    def newest_finished(self, incarnation: str) -> Verification | None:
        return self.newest.get(incarnation)


def reader(*, settings: Any = SETTINGS, epochs: int = 0, given_up: tuple[int, ...] = (), **more: Any) -> Any:
    """Return the reader of a job that has committed some epochs, a hundred of its thousand rows in each."""
    barriers = [barrier_of(e, upstream=window_of(e - 2, e - 1, row_count=1000)) for e in range(1, epochs + 1)]
    commits = [commit_of(barrier, given_up=barrier.epoch in given_up) for barrier in barriers]

    def since(records: Any, epoch: int) -> Any:
        return [record for record in records if record.epoch >= epoch]

    def in_force() -> Any:
        if settings is None:
            raise JobNotCreatedError("create it first")
        return settings

    fields = {
        "location": "/state",
        "settings": in_force,
        "state": lambda: BackfillState(epoch=5, vnodes=PROGRESS),
        "last_epoch": lambda: epochs,
        "commits": lambda *, since_epoch: since(commits, since_epoch),
        "log": lambda *, since_epoch: (since(barriers, since_epoch), since(commits, since_epoch)),
        "verifications": Verifications(),
    }
    return SimpleNamespace(**{**fields, **more})


# --- whatever is waited for -----------------------------------------------------------------------


def test_a_job_that_is_not_created_is_waited_for():
    observation = observe(reader(settings=None), Finished())
    assert (observation.value, observation.note) == (None, "no job is created at /state yet")


def test_a_cancelled_job_never_meets_a_condition_but_may_have_met_it():
    cancelled = settings_of(cancelled=True)
    with pytest.raises(JobCancelledError, match="was cancelled; epoch 3 of job paid_orders is not committed"):
        observe(reader(settings=cancelled, epochs=2), EpochCommitted(3))
    assert observe(reader(settings=cancelled, epochs=2), EpochCommitted(2)).value == {"epoch": 2}


# --- finished, committed, far enough --------------------------------------------------------------


@pytest.mark.parametrize(("finished_epoch", "value"), [(None, None), (7, {"epoch": 7})])
def test_a_view_is_finished_once_its_settings_say_so(finished_epoch, value):
    assert observe(reader(settings=settings_of(finished_epoch=finished_epoch)), Finished()).value == value


@pytest.mark.parametrize(
    ("epochs", "given_up", "committed"),
    [(1, (), False), (2, (), True), (3, (), True), (2, (2,), False), (3, (2,), True), (3, (2, 3), False)],
)
def test_an_epoch_is_committed_or_given_up_and_followed_by_one_that_is(epochs, given_up, committed):
    observation = observe(reader(epochs=epochs, given_up=given_up), EpochCommitted(2))
    assert observation.value == ({"epoch": 2} if committed else None)


@pytest.mark.parametrize(("share", "reached"), [(0.3, True), (0.31, False), (0.0, True)])
def test_progress_is_the_share_of_rows_that_were_read(share, reached):
    observation = observe(reader(epochs=3), ProgressAtLeast(share))
    assert observation.value == ({"progress": 0.3, "epoch": 3} if reached else None)
    assert f"is 30.0%, at least {share:.1%} is needed" in observation.note


@pytest.mark.parametrize(
    ("vnodes", "value"),
    [
        ((0, 1), {"vnodes": "0-1", "epoch": 5}),
        (("1",), {"vnodes": "1", "epoch": 5}),
        ((1, 2), None),
        (("2-3",), None),
        ((0, 3), None),
    ],
)
def test_vnodes_are_completed_once_each_of_them_is(vnodes, value):
    """Under an arrangement each completes alone."""
    assert observe(reader(), VnodesCompleted(vnodes)).value == value


def test_the_vnodes_that_are_left_are_named():
    assert observe(reader(), VnodesCompleted(("0-3",))).note == "vnodes 2-3 of job paid_orders are not completed"


# --- verified -------------------------------------------------------------------------------------


def verified(*missing: tuple[int, str], ago: dt.timedelta = dt.timedelta(0)) -> Any:
    """Return the reader of a job whose view was verified as of epoch 41."""
    at = dt.datetime.now(dt.UTC) - ago
    steps = [step.model_copy(update={"compared_at": at}) for step in (compared_of(0, 1, *missing), compared_of(2, 3))]
    return reader(verifications=Verifications(a1=Verification(pinned_verification_of(), tuple(steps))))


def test_a_view_that_was_never_verified_is_waited_for():
    observation = observe(reader(), Verified(None, None))
    assert (observation.value, observation.note) == (None, "the view of job paid_orders: never verified")


@pytest.mark.parametrize(
    ("max_age", "epoch", "is_enough"),
    [
        (None, None, True),
        (3 * 3600.0, None, True),
        (3600.0, None, False),
        (None, 41, True),
        (None, 42, False),
        (3 * 3600.0, 42, False),
    ],
)
def test_a_verification_must_be_young_enough_and_of_a_late_enough_epoch(max_age, epoch, is_enough):
    value = observe(verified(ago=dt.timedelta(hours=2)), Verified(max_age, epoch)).value
    assert (value is not None) is is_enough
    if value is not None:
        assert (value["epoch"], dt.datetime.fromisoformat(value["verified_at"]).tzinfo) == (41, dt.UTC)


def test_a_view_that_differs_fails_unless_it_was_verified_too_long_ago():
    differs = verified((1, "7"), ago=dt.timedelta(hours=2))
    with pytest.raises(ViewDiffersError, match="epoch 41, 2 h 0 min ago: 1 keys differ, in the vnodes 1; repair"):
        observe(differs, Verified(None, None))
    assert observe(differs, Verified(3600.0, None)).value is None


def test_a_rebuilt_view_is_not_verified():
    rebuilt = verified()
    rebuilt.settings = lambda: settings_of(incarnation="b2")
    assert observe(rebuilt, Verified(None, None)).value is None
