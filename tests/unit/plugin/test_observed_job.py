"""A job is read again if, and only if, one of its tables has a new version."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.clock import utc_now
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.tables.view_identity import FINISHED_PROPERTY, JOB_PROPERTY
from airflow_backfill_provider.plugin import observed_job
from airflow_backfill_provider.plugin.observed_job import ObservedJob
from tests.unit.stand_in import Lake


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


@pytest.fixture
def reads(monkeypatch) -> list[object]:
    """One entry for every time that control tables were read."""
    read, counted = Backfill.read, []

    def counting(self):
        counted.append(self)
        return read(self)

    monkeypatch.setattr(Backfill, "read", counting)
    return counted


@pytest.fixture(autouse=True)
def _always_look(monkeypatch):
    monkeypatch.setattr(observed_job, "FRESH_SECONDS", -1.0)


def observe(lake: Lake) -> ObservedJob:
    return ObservedJob(lambda: lake.backfill)


def test_an_unchanged_job_is_read_once(created: Lake, reads):
    job = observe(created)

    assert job.look() is job.look()
    assert len(reads) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda lake: lake.append([5000]),
        lambda lake: lake.inject(),
        lambda lake: mutations.pause_job(store=lake.backfill.store, requested_by="vera"),
    ],
    ids=["upstream", "barrier", "settings"],
)
def test_a_change_of_any_table_is_seen(created: Lake, reads, change):
    job = observe(created)
    before = job.look()

    change(created)

    assert job.look().token != before.token
    assert job.look().summary != before.summary
    assert len(reads) == 2


def test_an_epoch_is_seen_with_its_cells_and_history(created: Lake):
    job = observe(created)
    assert [cell.not_started for cell in job.look().cells] == [1, 1, 1, 1]
    created.epochs(1)

    reading, history = job.look(), job.history()

    assert reading.summary is not None
    assert (reading.summary.epoch, reading.summary.condition) == (1, JobCondition.WAITING)
    assert [cell.in_progress for cell in reading.cells] == [1, 1, 1, 1]
    assert reading.shared_position, "of no_shuffle"
    assert [commit.epoch for commit in history.commits] == [1]
    assert history is job.history()


def test_a_job_is_observed_also_before_it_is_created(orders: Lake):
    job = observe(orders)
    assert not job.look().created

    orders.create()

    assert job.look().created


def test_before_it_is_created_a_job_says_which_view_it_waits_for(orders: Lake):
    job = observe(orders)
    upstream = DeltaTable(orders.definition["upstream"]["path"])
    said = []
    for finished in ("false", "true"):
        view = {JOB_PROPERTY: "paid_orders", FINISHED_PROPERTY: finished}
        upstream.alter.set_table_properties(view, raise_if_not_exists=False)
        said.append(job.look())

    assert [reading.waits_for for reading in said] == ["waits for paid_orders", ""]
    assert said[0].token != said[1].token


def test_a_look_just_after_another_one_is_answered_from_it(created: Lake, monkeypatch):
    monkeypatch.setattr(observed_job, "FRESH_SECONDS", 1000.0)
    job = observe(created)
    before = job.look()
    created.cancel()

    assert job.look() is before
    assert job.look_again().summary.condition is JobCondition.CANCELLED


def test_a_job_that_stalls_is_seen_although_nothing_changes(created: Lake, reads, monkeypatch):
    """The watchdog's alarm comes with time alone, and must reach a page that has seen the rest."""
    created.epochs(2)
    now = [utc_now()]
    monkeypatch.setattr(observed_job, "ASSESS_SECONDS", -1.0)
    job = ObservedJob(lambda: created.backfill, clock=lambda: now[0])
    before = job.look()
    assert job.look().token == before.token

    now[0] += dt.timedelta(days=2)

    reading = job.look()
    assert before.summary is not None
    assert reading.summary is not None
    assert (before.summary.warnings, len(reading.summary.warnings)) == ((), 1)
    assert reading.token != before.token
    assert len(reads) == 1


def test_the_tables_of_another_job_are_refused(created: Lake):
    created.fields = {"name": "another", "state": created.backfill.job.state}

    with pytest.raises(InvalidJobError, match="holds the control tables of job small_orders"):
        observe(created).look()
