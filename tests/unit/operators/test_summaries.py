"""What tasks return: plain values with the same names everywhere."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from airflow_backfill_provider.core.epoch.announced import CommittedEpoch
from airflow_backfill_provider.core.epoch.barrier import Mutation, PinnedMutation
from airflow_backfill_provider.operators.summaries import (
    barrier_summary,
    epoch_event,
    epoch_summary,
    epochs_summary,
    event_of_epochs,
    name_of_epochs,
    no_barrier,
    no_epoch,
    settings_summary,
)
from tests.builders import NOW, barrier_of, commit_of, part_of, settings_of, window_of

PAUSE = PinnedMutation(mutation=Mutation.PAUSE, requested_by="vera", requested_at=NOW)
BARRIER = barrier_of(
    7,
    upstream=window_of(3, 5),
    parts=(part_of(None, ("4",)), part_of(("4",), None)),
    mutations=(PAUSE,),
    paused=True,
    warnings=("w",),
)
COMMIT = commit_of(BARRIER, completed=True, view_version=9)


def test_a_barrier():
    assert barrier_summary(BARRIER) == {
        "epoch": 7,
        "from_version": 3,
        "to_version": 5,
        "rate_limit": 100,
        "parts": 2,
        "paused": True,
        "mutations": ["pause"],
        "warnings": ["w"],
    }


def test_an_epoch():
    assert epoch_summary(BARRIER, COMMIT, 0.5) == {
        "epoch": 7,
        "from_version": 3,
        "to_version": 5,
        "rows": 100,
        "changes": 3,
        "progress": 0.5,
        "finished": True,
    }


def test_several_epochs_are_one_from_the_first_to_the_last():
    barriers = [barrier_of(epoch, upstream=window_of(epoch, epoch + 1)) for epoch in (4, 5, 6)]
    commits = [commit_of(barrier, completed=barrier.epoch == 6) for barrier in barriers]
    assert epochs_summary(barriers, commits, 1.0) == {
        "epoch": 6,
        "epochs": [4, 5, 6],
        "from_version": 4,
        "to_version": 7,
        "rows": 300,
        "changes": 9,
        "progress": 1.0,
        "finished": True,
    }


@pytest.mark.parametrize(("progress", "finished"), [(0.4, False), (1.0, True)])
def test_a_task_run_without_an_epoch_returns_the_same_fields_and_why(progress, finished):
    summary = no_epoch("nothing changed", progress)
    assert (summary["epoch"], summary["epochs"], summary["finished"]) == (None, [], finished)
    assert set(summary) == {*epochs_summary([BARRIER], [COMMIT], 1.0), "reason"}
    assert no_barrier("nothing changed") == {"epoch": None, "reason": "nothing changed"}


@pytest.mark.parametrize(
    ("epochs", "name"), [([], "nothing to do"), ([4], 4), ([4, 5], "4 to 5"), ([4, 5, 6], "4 to 6")]
)
def test_a_task_run_is_named_by_its_epochs(epochs, name):
    assert name_of_epochs(epochs) == name


def test_the_event_of_an_epoch_says_how_far_the_view_is():
    backfill = SimpleNamespace(job=SimpleNamespace(name="paid_orders"))
    event = epoch_event(backfill, BARRIER, COMMIT)
    assert event == {
        "job": "paid_orders",
        **epoch_summary(BARRIER, COMMIT, 1.0),
        "rows_read": 700,
        "view_version": 9,
        "watermark": NOW.isoformat(),
    }


def test_the_settings_in_force():
    settings = settings_of(paused=True, rate_limit=7, finished_epoch=3)
    assert settings_summary(settings) == {
        "name": "paid_orders",
        "incarnation": "a1",
        "paused": True,
        "rate_limit": 7,
        "target_epoch_seconds": None,
        "max_rows_per_second": None,
        "parallelism": 1,
        "cancelled": False,
        "finished_epoch": 3,
    }


def test_all_of_them_are_values_that_xcom_keeps():
    values = [
        barrier_summary(BARRIER),
        epochs_summary([BARRIER], [COMMIT], 0.5),
        no_epoch("x", 0.5),
        settings_summary(settings_of()),
    ]
    assert json.loads(json.dumps(values)) == values


def test_of_several_upstreams_each_has_its_window_from_the_first_epoch_to_the_last():
    backfill = SimpleNamespace(job=SimpleNamespace(name="named_orders"))

    def two(epoch, customers):
        windows = (window_of(epoch, epoch + 1, relation="orders"), window_of(*customers, relation="customers"))
        return barrier_of(epoch, windows=windows)

    barriers = [two(4, (1, 1)), two(5, (1, 3))]
    commits = [commit_of(barrier) for barrier in barriers]
    together = {
        "orders": {"from_version": 4, "to_version": 6},
        "customers": {"from_version": 1, "to_version": 3},
    }
    assert barrier_summary(barriers[0])["upstreams"]["customers"] == {"from_version": 1, "to_version": 1}
    assert epochs_summary(barriers, commits, 1.0)["upstreams"] == together
    event = event_of_epochs(backfill, [CommittedEpoch(*found) for found in zip(barriers, commits, strict=True)])
    assert event["upstreams"] == together


def test_an_event_of_several_epochs_is_as_of_the_last_one_and_has_their_sums():
    backfill = SimpleNamespace(job=SimpleNamespace(name="paid_orders"))
    first = barrier_of(6, upstream=window_of(1, 3))
    epochs = [CommittedEpoch(first, commit_of(first)), CommittedEpoch(BARRIER, COMMIT)]
    one, both = event_of_epochs(backfill, epochs[1:]), event_of_epochs(backfill, epochs)
    assert one == {"event": "epoch", **epoch_event(backfill, BARRIER, COMMIT)}
    assert both == {**one, "first_epoch": 6, "from_version": 1, "rows": 200, "changes": 6}


def test_an_event_says_that_an_epoch_was_given_up():
    backfill = SimpleNamespace(job=SimpleNamespace(name="paid_orders"))
    assert "given_up" not in epoch_event(backfill, BARRIER, COMMIT)
    assert epoch_event(backfill, BARRIER, COMMIT.model_copy(update={"given_up": True}))["given_up"] is True
