"""
What the tests of running epochs have in common: jobs, the results of their epochs, and the crash points.

Each test module assigns the fixtures it needs to their own names, because pytest looks for fixtures in the module.
"""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.builders import PAID
from tests.property.backfilling import Prepared


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=4)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 9, four rows an epoch."""
    return prepared.restore()


OF_ARRANGEMENTS = {CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT}
OF_DATABASES = {
    CrashPoint.BEFORE_LANDING_COMMIT,
    CrashPoint.AFTER_LANDING_COMMIT,
    CrashPoint.BEFORE_CLEAN_UP_COMMIT,
    CrashPoint.AFTER_CLEAN_UP_COMMIT,
    CrashPoint.BEFORE_READ_AHEAD_COMMIT,
    CrashPoint.AFTER_READ_AHEAD_COMMIT,
}
OF_SPARK = {CrashPoint.AFTER_REMOVAL_COMMIT, CrashPoint.BEFORE_FILES_COMMIT}
OF_SHARED_EPOCHS = {CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT}
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
NOT_OF_EVERY_EPOCH = OF_CREATIONS | OF_DATABASES | OF_GIVING_UP | OF_ARRANGEMENTS | OF_SPARK | OF_SHARED_EPOCHS
POINTS = [point for point in CrashPoint if point not in NOT_OF_EVERY_EPOCH]
"""What an epoch passes that reads in place, in one task run."""


def history(backfilling):
    """Run epoch 1 and change rows on both sides of its position, so that epoch 2 has changes and a chunk to write."""
    backfilling.epoch()
    backfilling.orders.change([0, 9], amount=5)
    backfilling.orders.rekey({1: 6, 6: 1})
    backfilling.orders.remove(3)


def outcome(backfilling):
    """Return the result of the epochs: rows, state and counts."""
    counts = [
        (c.epoch, c.snapshot_read_row_count, c.upstream_output_row_count, c.rows_read, c.completed)
        for c in backfilling.store.commits()
    ]
    return backfilling.rows(), backfilling.store.state(), counts


@pytest.fixture(scope="module")
def prepared_history(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("history"), range(10), history, rate_limit=4)


@pytest.fixture
def begun(prepared_history):
    """The job after one epoch and some changes."""
    return prepared_history.restore()


@pytest.fixture(scope="module")
def undisturbed(prepared_history):
    """The result of the same history after each further epoch if nothing goes wrong."""
    backfilling = prepared_history.restore()
    outcomes = {}
    for epoch in (2, 3):
        backfilling.epoch()
        backfilling.assert_truth()
        outcomes[epoch] = outcome(backfilling)
    return outcomes


def while_asleep_at(point, meanwhile):
    """Do something while the next attempt that gets to a point sleeps there."""

    def callback(reached):
        if reached is point:
            crash_points.install(None)
            meanwhile()

    crash_points.install(callback)


def moving(backfilling):
    """Run an epoch, then change rows that were read and rows that were not, some of which change their vnode."""
    backfilling.epoch()
    backfilling.orders.change([0, 3, 9, 17], amount=5)
    backfilling.orders.rekey({1: 16, 16: 1})
    backfilling.orders.remove(4)
    backfilling.orders.add(30)


@pytest.fixture(scope="module")
def prepared_arrangement(tmp_path_factory):
    return Prepared(
        tmp_path_factory.mktemp("arrangement"),
        range(20),
        moving,
        distribution_key=("amount", "id"),
        strategy="arrangement",
        vnode_count=8,
        parallelism=3,
        rate_limit=9,
        query=PAID,
    )


@pytest.fixture
def arranged(prepared_arrangement):
    """A job with a position per vnode and three task runs, nine rows an epoch, after one epoch and some changes."""
    return prepared_arrangement.restore()


@pytest.fixture(scope="module")
def arranged_undisturbed(prepared_arrangement):
    """The result of that history if one task run does each epoch whole and nothing goes wrong."""
    backfilling = prepared_arrangement.restore()
    outcomes = {}
    for epoch in (2, 3):
        backfilling.epoch()
        backfilling.assert_truth()
        outcomes[epoch] = outcome(backfilling)
    return outcomes
