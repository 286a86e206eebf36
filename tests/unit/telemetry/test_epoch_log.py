"""What the log of a task says about its epoch."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider.core.epoch.barrier import Mutation, PinnedMutation
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.job.rate_limit import PinnedRate
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.job_status import job_status
from airflow_backfill_provider.telemetry import epoch_log
from tests.builders import NOW, barrier_of, commit_of, part_of, settings_of, window_of

THROTTLE = PinnedMutation(mutation=Mutation.THROTTLE, value=500000, requested_by="vera", requested_at=NOW)


def status_of(state: BackfillState, *, completed: bool = False):
    barrier = barrier_of()
    return job_status(
        settings=settings_of(),
        state=state,
        barriers=[barrier],
        commits=[commit_of(barrier, completed=completed)],
        feed=ChangeFeed(latest=Offset(0), kept_for=dt.timedelta(days=7)),
        now=NOW,
    )


def test_an_epoch_begins_with_its_window_its_plan_and_what_takes_effect():
    barrier = barrier_of(3, upstream=window_of(3, 7), mutations=(THROTTLE,))

    assert list(epoch_log.begin(barrier, "/lake/orders")) == [
        "epoch 3: upstream versions (3, 7] of /lake/orders, committed up to 2026-03-29 01:30:00 UTC",
        "planned: changes, then at most 100 rows",
        "takes effect: throttle 500,000, asked for by vera",
    ]


@pytest.mark.parametrize(
    ("changes", "plan"),
    [
        ({"rate_limit": None, "completes": True}, "changes, then all snapshot rows that are left; every vnode is"),
        ({"parts": (part_of(None, ("1",)), part_of(("1",), ("2",)))}, "at most 100 rows in 2 parallel task runs"),
        ({"publishes": False}, "changes of rows that were read wait; at most 100 rows"),
        ({"parts": (), "paused": True}, "changes only, the job is paused"),
        ({"parts": ()}, "changes only, no snapshot to read"),
        ({"repair": Repair(vnodes=(1,))}, "rows to repair"),
    ],
)
def test_a_plan_says_what_is_read(changes, plan):
    assert plan in list(epoch_log.begin(barrier_of(**changes), "/lake/orders"))[1]


def test_a_rate_limit_that_was_chosen_says_why():
    rate = PinnedRate(asked="auto", reason="because the last epoch read 50 rows in 30 s of the 60 s wanted")
    auto = THROTTLE.model_copy(update={"value": "auto"})
    lines = list(epoch_log.begin(barrier_of(rate=rate, mutations=(auto,)), "/lake/orders"))

    assert lines[2:] == [
        "rate limit: auto: 100 rows per epoch, because the last epoch read 50 rows in 30 s of the 60 s wanted",
        "takes effect: throttle auto, asked for by vera",
    ]


def test_an_epoch_without_new_versions_says_so():
    first, *_ = epoch_log.begin(barrier_of(upstream=window_of(5, 5)), "/lake/orders")

    assert first == "epoch 1: the upstream /lake/orders has nothing after version 5"


def test_an_epoch_ends_with_what_it_did():
    barrier = barrier_of()

    assert epoch_log.end(commit_of(barrier)) == "epoch 1 is committed: 100 rows read, 3 changes applied, 2 s in Spark"


def test_progress_says_how_much_how_fast_and_how_long():
    state = BackfillState(epoch=1, vnodes=(InProgress((5,), 100),) * 4)

    assert epoch_log.progress(status_of(state)) == (
        "10.0 % of the snapshot: 100 of 1,000 rows, 0 of 4 vnodes completed, 10 rows/s, about 1 min 30 s left"
    )


def test_a_finished_job_needs_no_estimate():
    state = BackfillState(epoch=1, vnodes=(Completed(None, 1000),) * 4)

    assert epoch_log.progress(status_of(state, completed=True)) == "every vnode is completed: 1,000 rows read in all"
