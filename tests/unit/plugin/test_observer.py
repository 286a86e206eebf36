"""Many jobs are looked at side by side; a bad one does not keep the others from being seen."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.plugin import observed_job, observer
from airflow_backfill_provider.plugin.observer import UNREADABLE, JobObserver
from airflow_backfill_provider.plugin.registry import RegisteredJob
from tests.unit.stand_in import Lake


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


def registered(lake: Lake, **changes) -> RegisteredJob:
    fields = {"backfill_conn_id": "airflow_backfill_default", "dag_ids": ("dag",), **changes}
    return RegisteredJob(name=lake.definition["name"], definition=lake.definition, **fields)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(observer, "FIRST_LOOK_SECONDS", 60.0)
    monkeypatch.setattr(observer, "NEXT_LOOK_SECONDS", 60.0)
    monkeypatch.setattr(observed_job, "FRESH_SECONDS", -1.0)


def test_jobs_are_answered_in_order(created: Lake, tmp_path: Path):
    elsewhere = Lake(tmp_path / "elsewhere", {"name": "not_created"})

    first, second = JobObserver().observe([registered(elsewhere), registered(created)])

    assert first.reading is not None
    assert not first.reading.created
    assert second.reading is not None
    assert second.reading.summary is not None
    assert second.reading.summary.name == "small_orders"


def test_a_job_that_cannot_be_read_says_why_until_it_can(created: Lake):
    jobs, job = JobObserver(), registered(created)
    shutil.move(created.folder / "orders", created.folder / "moved")
    (observation,) = jobs.observe([job])
    assert observation.reading is None
    assert "there is no Delta table at" in (observation.problem or "")

    shutil.move(created.folder / "moved", created.folder / "orders")
    (observation,) = jobs.observe([job])

    assert observation.problem is None
    assert observation.reading is not None


def test_an_unexpected_error_is_not_quoted(created: Lake, monkeypatch):
    monkeypatch.setattr(Backfill, "read", lambda _: 1 / 0)

    (observation,) = JobObserver().observe([registered(created)])

    assert observation.problem == UNREADABLE


def test_a_slow_storage_is_not_waited_for(created: Lake, monkeypatch):
    """Meanwhile, the last answer is returned."""
    jobs, job = JobObserver(), registered(created)
    (before,) = jobs.observe([job])
    monkeypatch.setattr(observer, "NEXT_LOOK_SECONDS", 0.0)
    answers, read = threading.Event(), Backfill.read
    monkeypatch.setattr(Backfill, "read", lambda self: answers.wait() and read(self))
    created.inject()

    assert jobs.observe([job]) == [before]
    answers.set()
    monkeypatch.setattr(observer, "NEXT_LOOK_SECONDS", 60.0)
    assert jobs.observe([job]) != [before]


def test_a_missing_connection_is_reported(created: Lake):
    (observation,) = JobObserver().observe([registered(created, backfill_conn_id="nowhere")])

    assert "there is no connection nowhere" in (observation.problem or "")
