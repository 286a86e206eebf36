"""Waiting for an application without a worker slot: one test for each way in which that ends."""

from __future__ import annotations

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill_provider.applications.supervisor import HEARTBEAT_SECONDS
from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.state.applications import ApplicationRecords
from airflow_backfill_provider.triggers import application
from airflow_backfill_provider.triggers.application import SparkApplicationTrigger, _Watch
from tests.unit.stand_in import Lake

pytestmark = pytest.mark.usefixtures("no_waiting")

RECORD = ApplicationRecord(
    name="epoch-1", attempt="a", host="here", pid=1, started_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC), log="/log"
)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for the commit every time."""
    monkeypatch.setattr(application, "COMMIT_LOOK_SECONDS", 0.0)


@pytest.fixture
def records(lake: Path) -> ApplicationRecords:
    records = ApplicationRecords(str(lake / "state"))
    records.write(RECORD)
    return records


def trigger(state: str, epoch: int | None = None) -> SparkApplicationTrigger:
    made = SparkApplicationTrigger(
        state=state,
        name="epoch-1",
        epoch=epoch,
        backfill_conn_id="airflow_backfill_default",
        poll_interval=0.01,
        attempt=RECORD.attempt,
        waiter="d.t of run 1",
    )
    path, arguments = made.serialize()
    assert path == f"{application.__name__}.SparkApplicationTrigger"
    return SparkApplicationTrigger(**arguments)


def event_of(waiting: SparkApplicationTrigger) -> dict[str, Any]:
    async def first() -> Any:
        return await asyncio.wait_for(anext(waiting.run()), 30)

    return asyncio.run(first()).payload


def ended(code: int, error: str = "") -> ApplicationRecord:
    return RECORD.model_copy(update={"exit_code": code, "error": error})


def test_every_argument_of_a_trigger_is_serialized():
    arguments = {
        "state": "/lake/state",
        "name": "epoch-3",
        "epoch": 3,
        "backfill_conn_id": "lake",
        "poll_interval": 7.5,
        "attempt": "a",
        "waiter": "d.t of run 1",
    }
    made = SparkApplicationTrigger(**arguments)

    assert made.serialize()[1] == arguments
    assert SparkApplicationTrigger(**arguments | {"epoch": None}).serialize()[1]["epoch"] is None


def test_an_application_that_succeeded(lake, records):
    records.write(ended(0))

    assert event_of(trigger(str(lake / "state"))) == {"name": "epoch-1", "outcome": "succeeded"}


@pytest.mark.parametrize(("code", "retryable"), [(1, True), (3, False), (-9, True)])
def test_an_application_that_failed(lake, records, code, retryable):
    records.write(ended(code, "no such key"))

    assert event_of(trigger(str(lake / "state"))) == {
        "name": "epoch-1",
        "outcome": "failed",
        "message": "no such key",
        "retryable": retryable,
    }


def test_an_application_without_a_sign_of_life_is_asked_to_stop(lake, records, monkeypatch):
    monkeypatch.setattr(application, "LOST_AFTER_SECONDS", 0.0)

    event = event_of(trigger(str(lake / "state")))

    assert (event["outcome"], event["retryable"]) == ("failed", True)
    assert "its supervisor on here does not update its record" in event["message"]
    assert records.stop_requested(RECORD)


def waiting_for(lake: Path, attempt: str = "a", waiter: str = "d.t of run 1") -> SparkApplicationTrigger:
    return SparkApplicationTrigger(
        state=str(lake / "state"),
        name="epoch-1",
        epoch=None,
        backfill_conn_id="airflow_backfill_default",
        poll_interval=0.01,
        attempt=attempt,
        waiter=waiter,
    )


def test_a_trigger_is_made_again_with_its_attempt_and_its_task_run(lake):
    arguments = waiting_for(lake).serialize()[1]
    assert (arguments["attempt"], arguments["waiter"]) == ("a", "d.t of run 1")
    assert SparkApplicationTrigger(**arguments).serialize()[1] == arguments


def test_a_trigger_is_among_those_that_wait_until_it_ends(lake, records, monkeypatch):
    seen: list[list[str]] = []

    def read(_: SparkApplicationTrigger) -> ApplicationRecord:
        seen.append(records.others_waiting("epoch-1", ""))
        return ended(0)

    monkeypatch.setattr(SparkApplicationTrigger, "_read", read)
    assert event_of(waiting_for(lake))["outcome"] == "succeeded"
    assert seen == [["d.t of run 1"]]
    assert records.others_waiting("epoch-1", "") == []


def test_who_is_killed_stops_no_application_that_another_task_run_waits_for(lake, records):
    """The last one that is killed stops it; the others are told by whom."""
    records.begin_wait("epoch-1", "t1", "d.t of run 1")
    asyncio.run(waiting_for(lake, waiter="d.t of run 2").on_kill())
    assert not records.stop_requested(RECORD)

    records.end_wait("epoch-1", "t1")
    asyncio.run(waiting_for(lake).on_kill())
    assert records.stop_requested(RECORD)
    assert records.stopped_by("epoch-1") == "d.t of run 1"


def test_who_is_killed_stops_its_own_attempt_and_not_a_newer_one(lake, records):
    newer = RECORD.model_copy(update={"attempt": "b"})
    records.write(newer)
    asyncio.run(waiting_for(lake, attempt="a").on_kill())
    assert not records.stop_requested(newer)
    asyncio.run(waiting_for(lake, attempt="b").on_kill())
    assert records.stop_requested(newer)


def test_the_failure_of_a_stopped_application_names_who_stopped_it(lake, records):
    records.write(ended(143, "stopped on request").model_copy(update={"stopped_by": "d.t of run 2"}))
    assert event_of(waiting_for(lake))["message"] == "stopped on request of d.t of run 2; trying again is safe"


def test_who_loses_to_another_attempt_learns_where_its_output_is():
    watch = _Watch("a")
    other = RECORD.model_copy(update={"attempt": "b", "started_by": "d.create of run 2", "log": "/log/b"})
    assert watch.news(RECORD) == []
    (line,) = watch.news(other)
    assert "another attempt at epoch-1 was started by d.create of run 2 on here" in line
    assert line.endswith("Spark's own output is in /log/b")
    assert watch.news(other.with_next_heartbeat()) == []


def test_an_application_whose_record_is_gone_is_lost(lake, records, monkeypatch):
    monkeypatch.setattr(application, "LOST_AFTER_SECONDS", 0.0)
    records.forget("epoch-1")

    assert "its record is gone" in event_of(trigger(str(lake / "state")))["message"]


def test_a_commit_by_another_process_is_enough(created: Lake):
    created.epochs(1)
    ApplicationRecords(created.backfill.job.state).write(RECORD)

    assert event_of(trigger(created.backfill.job.state, epoch=1))["outcome"] == "succeeded"


def test_control_tables_that_are_damaged_end_the_wait(lake, records):
    (lake / "state" / "barrier_log" / "_delta_log").mkdir(parents=True)

    event = event_of(trigger(str(lake / "state"), epoch=1))

    assert (event["outcome"], event["retryable"]) == ("failed", False)


def test_a_living_application_is_waited_for_and_its_messages_are_logged_once(lake, records, monkeypatch):
    monkeypatch.setattr(application, "LOST_AFTER_SECONDS", 5.0)
    told: list[str] = []
    waiting = trigger(str(lake / "state"))
    waiting.log.info = lambda form, *texts: told.append(form % texts)

    async def live() -> Any:
        end = asyncio.ensure_future(anext(waiting.run()))
        record = RECORD
        for said in (("one",), ("one", "two"), ("two", "three")):
            record = record.with_next_heartbeat().model_copy(
                update={"said": said, "application_id": "local-1", "web_url": "http://ui"}
            )
            records.write(record)
            await asyncio.sleep(0.1)
            assert not end.done()
        records.write(record.model_copy(update={"exit_code": 0}))
        return await asyncio.wait_for(end, 30)

    assert asyncio.run(live()).payload["outcome"] == "succeeded"
    assert told == ["Spark application local-1: http://ui", "one", "two", "three"]


def test_killing_the_task_stops_the_application(lake, records):
    asyncio.run(trigger(str(lake / "state")).on_kill())

    assert records.stop_requested(RECORD)


def test_killing_the_task_of_an_application_that_ended_asks_for_nothing(lake, records):
    records.write(ended(0))

    asyncio.run(trigger(str(lake / "state")).on_kill())

    assert not records.stop_requested(RECORD)


def test_a_storage_that_does_not_answer_for_a_moment_ends_no_wait(lake, records):
    """A file instead of the folder, which is another error than a missing folder."""
    applications, elsewhere = Path(records.location), lake / "elsewhere"
    waiting = trigger(str(lake / "state"))

    def go_away() -> None:
        applications.rename(elsewhere)
        applications.write_text("in its place", encoding="utf-8")

    def come_back() -> None:
        applications.unlink()
        elsewhere.rename(applications)
        records.write(ended(0))

    async def outage() -> Any:
        warned = asyncio.Event()
        waiting.log.warning = lambda *_: warned.set()
        go_away()
        end = asyncio.ensure_future(anext(waiting.run()))
        await asyncio.wait_for(warned.wait(), 30)
        assert not end.done()
        come_back()
        return await asyncio.wait_for(end, 30)

    assert asyncio.run(outage()).payload["outcome"] == "succeeded"


def test_a_supervisor_may_miss_some_signs_of_life_before_it_counts_as_dead():
    """A busy machine, and a storage that is slow for a while, are no reason to start a second application."""
    assert application.LOST_AFTER_SECONDS >= 10 * HEARTBEAT_SECONDS
    watch = _Watch(RECORD.attempt)
    watch._changed -= application.LOST_AFTER_SECONDS + 1
    assert watch.lost
    watch.news(RECORD)
    assert not watch.lost


def test_the_messages_of_another_attempt_are_logged_from_the_beginning():
    watch = _Watch(RECORD.attempt)
    said = RECORD.model_copy(update={"said": ("starting", "reading")})
    assert watch.news(said) == ["starting", "reading"]
    assert watch.news(said.with_next_heartbeat()) == []
    other = watch.news(said.model_copy(update={"attempt": "b", "said": ("starting",)}))
    assert other[1:] == ["starting"]
    assert "another attempt at epoch-1 was started" in other[0]


def test_the_barrier_log_is_read_far_less_often_than_the_applications_record(monkeypatch):
    monkeypatch.setattr(application, "COMMIT_LOOK_SECONDS", 15.0)
    watch = _Watch(RECORD.attempt)
    assert not watch.commit_is_due
    watch._looked -= 16
    assert [watch.commit_is_due, watch.commit_is_due] == [True, False]
