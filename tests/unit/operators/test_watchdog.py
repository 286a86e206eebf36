"""The watchdog's task: what it returns, when it fails, and that it sends each alarm once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.operators.watchdog import BackfillWatchdogOperator
from tests.unit.stand_in import SOMEBODY, Lake


@pytest.fixture
def created(as_created: Callable[[], Lake]) -> Lake:
    """The job, created."""
    return as_created()


class XComs:
    """The XComs of one task through its runs."""

    def __init__(self) -> None:
        self.alarms: Any = None

    def xcom_push(self, key, value):
        assert key == "alarms"
        self.alarms = value

    def xcom_pull(self, *, task_ids, key, include_prior_dates):
        assert (task_ids, key, include_prior_dates) == ("watch", "alarms", True)
        return self.alarms


@pytest.fixture
def xcoms():
    return XComs()


@pytest.fixture
def look(xcoms):
    """Runs the task once."""

    def run(*jobs, **options):
        operator = BackfillWatchdogOperator(task_id="watch", jobs=jobs, **options)
        return operator.execute({"ti": xcoms})

    return run


@pytest.fixture
def stalled(created: Lake):
    """A job with an epoch that was pinned two days ago and not run."""
    backfill = created.backfill
    then = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    protocol.inject_barrier(store=backfill.store, upstream=backfill.upstream, requester=SOMEBODY, clock=lambda: then)
    return created


def test_without_an_alarm_the_task_succeeds(created: Lake, look, xcoms):
    assert look(created.definition) == xcoms.alarms == []


def test_an_alarm_fails_the_task_and_stays_as_xcom(stalled: Lake, look, xcoms):
    """No retry makes it go away."""
    with pytest.raises(AirflowFailException, match="small_orders stalled: epoch 1 has been pinned for 2 d 0 h"):
        look(stalled.definition)
    assert [(alarm["job"], alarm["kind"]) for alarm in xcoms.alarms] == [("small_orders", "stalled")]
    assert set(xcoms.alarms[0]) == {"job", "kind", "message", "remedy"}


def test_an_alarm_may_also_only_be_returned(stalled: Lake, look):
    (alarm,) = look(stalled.definition, on_alarm="succeed")
    assert alarm["kind"] == "stalled"


def test_an_alarm_is_sent_once_for_as_long_as_it_lasts(stalled: Lake, look):
    told = []

    def run():
        return look(
            stalled.definition, on_alarm="succeed", send=[lambda context: told.append(context["backfill"]["text"])]
        )

    assert run() == run()
    assert len(told) == 1
    store = stalled.backfill.store
    mutations.pause_job(store=store, requested_by="somebody")
    assert run() == []
    mutations.resume_job(store=store, requested_by="somebody")
    run()
    assert len(told) == 2, "it came back"


def test_another_alarm_of_the_job_is_sent_while_the_first_one_lasts(stalled: Lake, look, xcoms):
    xcoms.alarms = [{"job": "small_orders", "kind": "headroom"}, {"job": "others", "kind": "stalled"}, "unknown"]
    told: list[Any] = []

    look(stalled.definition, on_alarm="succeed", send=[lambda context: told.append(context["backfill"]["kind"])])

    assert told == ["stalled"]


def test_a_notifier_that_fails_does_not_change_the_tasks_result(stalled: Lake, look, caplog):
    def broken(context):
        raise RuntimeError("no such channel")

    assert look(stalled.definition, on_alarm="succeed", send=[broken])
    assert "no such channel" in caplog.text


def test_a_job_that_is_not_created_yet_is_skipped(orders: Lake, look):
    assert look(orders.definition) == []


def test_a_job_that_cannot_be_read_does_not_keep_the_others_from_being_looked_at(stalled: Lake, look, xcoms):
    gone = {**stalled.definition, "name": "gone", "materialized_view": "relative"}
    with pytest.raises(AirflowFailException, match="relative"):
        look(gone, stalled.definition)
    assert [alarm["job"] for alarm in xcoms.alarms] == ["small_orders"]


def test_a_retry_may_help_if_a_storage_does_not_answer(created: Lake, look, monkeypatch):
    def unavailable(*_):
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr("airflow_backfill_provider.jobs.backfill.Backfill.status", unavailable)
    with pytest.raises(AirflowException, match="no answer") as caught:
        look(created.definition)
    assert not isinstance(caught.value, AirflowFailException)


def test_a_retry_must_help_all_of_the_jobs_that_cannot_be_read(created: Lake, look, monkeypatch):
    """It would fail again all the same."""

    def unavailable(*_):
        raise StorageUnavailableError("no answer")

    monkeypatch.setattr("airflow_backfill_provider.jobs.backfill.Backfill.status", unavailable)
    with pytest.raises(AirflowFailException, match="no answer; .*relative"):
        look(created.definition, {**created.definition, "materialized_view": "relative"})
