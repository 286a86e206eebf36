"""A job with its tables, opened by its definition or by its control tables alone."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import (
    InvalidJobError,
    JobNotCreatedError,
    StateLayoutError,
    UpstreamReplacedError,
)
from airflow_backfill_provider.core.status import speed as speed_module
from airflow_backfill_provider.jobs import backfill as backfill_module
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.planning.plan import make_plan
from airflow_backfill_provider.jobs.verification.verifier import ask_for_verification
from tests.builders import NOW, Orders, commit_file, committed_at, job_of
from tests.property.backfilling import Backfilling, Prepared
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=4)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 9, four rows an epoch."""
    return prepared.restore()


def test_opening_a_job_costs_nothing_and_makes_nothing(lake):
    backfill = Backfill(job_of(lake), {"region": "x"})
    assert backfill.store.storage_options == {"region": "x"}
    assert backfill.store is backfill.store
    assert list(lake.iterdir()) == []


def test_a_created_job_is_opened_by_its_control_tables_alone(backfilling):
    opened = Backfill.at(backfilling.job.state)
    assert opened.job == backfilling.job
    assert opened.require_created() == backfilling.store.settings()


def test_a_rebuilt_job_is_opened_with_its_newest_definition(backfilling):
    backfilling.rebuild(vnode_count=9)
    assert Backfill.at(backfilling.job.state).job.vnode_count == 9


def test_a_job_that_was_not_created_says_so(lake):
    backfill = Backfill(job_of(lake))
    for look in (backfill.require_created, backfill.status, lambda: Backfill.at(backfill.job.state)):
        with pytest.raises(JobNotCreatedError, match="create it first"):
            look()
    assert list(lake.iterdir()) == []


def test_a_job_of_another_definition_is_refused(backfilling):
    other = job_of(backfilling.lake, vnode_count=99)
    with pytest.raises(InvalidJobError, match="another query, vnode_count"):
        Backfill(other).require_created()


def test_status_follows_a_job_to_its_end(backfilling):
    """Issue part 6: progress, lag and what it waits for, in milliseconds and without a JVM."""
    backfill = backfilling.backfill
    statuses = [backfill.status()]
    backfilling.orders.add(50)
    while not statuses[-1].finished:
        backfilling.epoch()
        statuses.append(backfill.status())
    assert [s.epoch for s in statuses] == [0, 1, 2, 3]
    assert [s.rows_read for s in statuses] == [0, 4, 8, 11]
    assert [round(s.progress, 3) for s in statuses] == [0.0, 0.364, 0.727, 1.0]
    assert [s.lag_versions for s in statuses] == [1, 0, 0, 0]
    assert [s.vnodes.in_progress for s in statuses] == [0, 4, 4, 0]
    assert [s.watermark is None for s in statuses] == [True, True, True, False]
    assert statuses[2].rows_per_second
    assert statuses[2].eta_seconds
    backfilling.orders.add(51)
    assert backfill.status().lag_versions == 1


def test_status_shows_what_the_job_waits_for(backfilling):
    backfilling.epoch()
    backfilling.inject()
    store = backfilling.store
    mutations.pause_job(store=store, requested_by="x")
    mutations.throttle_job(0, store=store, requested_by="x")
    mutations.cancel_job(store=store, requested_by="x")
    status = backfilling.backfill.status()
    assert (status.pinned_epoch, status.paused, status.rate_limit, status.cancelled) == (2, True, 0, True)
    assert status.eta_seconds is None


def test_status_of_a_rebuilt_job_starts_over(backfilling):
    backfilling.epoch()
    backfilling.rebuild()
    status = backfilling.backfill.status()
    assert (status.epoch, status.rows_read, status.progress, status.upstream_version) == (1, 0, 0.0, None)


def test_status_of_a_long_job_reads_the_end_of_its_log_only(lake, monkeypatch):
    monkeypatch.setattr(backfill_module, "RECENT_EPOCHS", 2)
    monkeypatch.setattr(speed_module, "RECENT_EPOCHS", 2)
    backfilling = Backfilling(lake, rate_limit=1)
    backfilling.orders.add(*range(10))
    backfilling.create()
    for _ in range(6):
        backfilling.epoch()
    status = backfilling.backfill.status()
    assert (status.epoch, status.rows_read) == (6, 6)
    # Injections and commits take turns at the clock, a minute each.
    assert status.rows_per_second == pytest.approx(2 / (60 * 2))


def test_status_of_a_damaged_state_is_refused(backfilling):
    """I6."""
    for file in (Path(backfilling.job.state) / "vnode_state").glob("*.parquet"):
        file.unlink()
    with pytest.raises(StateLayoutError, match="vnode_state"):
        backfilling.backfill.status()


def test_status_has_lag_and_headroom_by_the_clock(backfilling):
    backfilling.epoch()
    backfilling.orders.add(50)
    committed_at(backfilling.orders.path, 1, NOW)
    at_once = backfilling.backfill.status(lambda: NOW + dt.timedelta(minutes=5))
    assert (at_once.lag_seconds, at_once.headroom_hours, at_once.alarms) == (300, 7 * 24 - 5 / 60, ())
    late = backfilling.backfill.status(lambda: NOW + dt.timedelta(days=6, hours=12))
    assert (late.lag_seconds, late.headroom_hours) == (6.5 * 86400, 12)
    assert [alarm.kind for alarm in late.alarms] == ["headroom"]


def test_changes_from_before_a_job_was_created_are_not_needed(backfilling):
    """Under no_shuffle the first chunk has them."""
    status = backfilling.backfill.status(lambda: NOW + dt.timedelta(days=3650))
    assert (status.lag_versions, status.lag_seconds, status.headroom_hours, status.alarms) == (1, None, None, ())


# --- a replaced upstream --------------------------------------------------------------------------


def roll_back(orders, count=1):
    """Restore the upstream as it was so many versions ago."""
    for _ in range(count):
        commit_file(orders.path, orders.table.latest().number).unlink()


def recreated(backfilling, versions):
    shutil.rmtree(backfilling.orders.path)
    orders = Orders(backfilling.lake)
    for number in range(versions):
        orders.add(number)


@pytest.mark.parametrize(
    ("replace", "said"),
    [
        (lambda b: roll_back(b.orders), "ends with version 1, but the job has read up to version 2"),
        (lambda b: recreated(b, 2), "holds table"),
        (lambda b: recreated(b, 3), "holds table"),
        (lambda b: recreated(b, 9), "holds table"),
        (lambda b: committed_at(b.orders.path, 2, NOW), "version 2 of .* was written at"),
    ],
)
def test_a_replaced_upstream_is_an_alarm_and_no_lag(backfilling, replace, said):
    """I6: the status says what the next epoch would refuse, because that epoch may never start."""
    backfilling.orders.add(50)
    backfilling.orders.add(51)
    backfilling.epoch()
    assert backfilling.backfill.status().alarms == ()
    replace(backfilling)
    status = backfilling.backfill.status()
    assert [alarm.kind for alarm in status.alarms] == ["replaced"]
    assert re.search(said, status.alarms[0].message)
    assert status.lag_versions >= 0
    assert str(status.alarms[0]) in status.warnings
    with pytest.raises(UpstreamReplacedError, match="rebuild"):
        backfilling.ask()


def test_a_replaced_upstream_is_an_alarm_before_the_first_epoch(backfilling):
    recreated(backfilling, 1)
    assert [alarm.kind for alarm in backfilling.backfill.status().alarms] == ["replaced"]


def test_an_upstream_restored_to_before_the_version_of_the_arrangement(lake):
    """I6: no barrier can show it yet, and no epoch would ever find anything to do."""
    backfilling = Prepared(lake, range(10), rate_limit=4, strategy="arrangement").restore()
    backfilling.orders.add(50)
    backfilling.rebuild()
    roll_back(backfilling.orders)
    assert [alarm.kind for alarm in backfilling.backfill.status().alarms] == ["replaced"]
    with pytest.raises(UpstreamReplacedError, match="rebuild"):
        backfilling.ask()


# --- damaged verifications ------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["*.parquet", "_delta_log/*"])
def test_damaged_verifications_are_a_warning_and_everything_else_stays(backfilling, damage):
    """I6: unknown is something else than never verified. The epochs do not need the table."""
    backfill = backfilling.backfill
    backfilling.epoch()
    sound = backfill.status(lambda: NOW)
    assert sound.verification_problem is None
    ask_for_verification(backfill, requested_by="vera")
    for file in Path(backfill.job.state, "verifications").glob(damage):
        file.write_bytes(b"{" * 50)
    status = Backfill(backfill.job).status(lambda: NOW)
    assert "verifications cannot be read" in status.verification_problem
    assert "delete this table's folder" in status.verification_problem
    (warning,) = status.warnings
    assert warning == f"it is unknown whether the view was verified: {status.verification_problem}"
    assert status.verified is None
    differing = {"verification_problem": None, "warnings": ()}
    assert status.model_copy(update=differing) == sound


# --- a part of the upstream -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("restriction", "rows", "strategy"),
    [
        exhaustive({}, 100, "no_shuffle"),
        exhaustive({}, 100, "arrangement"),
        ({"keys": {"after": [19], "up_to": [39]}}, 20, "no_shuffle"),
        exhaustive({"keys": {"after": [19], "up_to": [39]}}, 20, "arrangement"),
        exhaustive({"keys": {"after": [89]}}, 10, "no_shuffle"),
        exhaustive({"keys": {"after": [89]}}, 10, "arrangement"),
        exhaustive({"vnodes": ["0-1"]}, 50, "no_shuffle"),
        ({"vnodes": ["0-1"]}, 50, "arrangement"),
    ],
)
def test_progress_and_plan_are_of_the_part_that_the_job_is_about(lake, restriction, rows, strategy):
    """A share of the whole upstream would never come near its end, and the time that is left would be wrong."""
    backfilling = Backfilling(lake, rate_limit=5, strategy=strategy, restrict_to=restriction)
    backfilling.orders.add(*range(100))
    planned = make_plan(backfilling.backfill)
    assert (planned.rows, planned.rows_left) == (100, rows)
    backfilling.create()
    read = backfilling.epoch().rows_read
    status = backfilling.backfill.status()
    assert 0 < read <= 5
    assert (status.rows_read, status.rows_estimated) == (read, rows)
    assert status.progress == pytest.approx(read / rows)
    assert make_plan(backfilling.backfill).rows_left == rows - read
    mutations.throttle_job(50, store=backfilling.store, requested_by="x")
    backfilling.finish()
    assert backfilling.backfill.status().progress == 1.0
