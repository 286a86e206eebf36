"""The events of a job as notifiers get them."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress
from airflow_backfill_provider.core.status.alarm import Alarm, AlarmKind
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.job_status import JobStatus, job_status
from airflow_backfill_provider.core.status.verification import Verification
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.notifications.events import (
    BackfillEvent,
    EventKind,
    alarm_event,
    failed_event,
    finished_event,
    status_fields,
)
from tests.builders import NOW, barrier_of, commit_of, compared_of, pinned_verification_of, settings_of


@pytest.fixture
def status() -> JobStatus:
    """A job whose last verification found a key that differs."""
    barrier = barrier_of(1)
    steps = compared_of(0, 1, (1, "very-secret")), compared_of(2, 3)
    return job_status(
        settings=settings_of(),
        state=BackfillState(epoch=1, vnodes=(InProgress(("very-secret",), 1000),) * 4),
        barriers=[barrier],
        commits=[commit_of(barrier, rows_read=1000)],
        feed=ChangeFeed(latest=Offset(0), kept_for=dt.timedelta(days=7)),
        now=NOW,
        verified=VerifiedState.of(Verification(pinned_verification_of(), steps)),
    )


@pytest.mark.parametrize("kind", AlarmKind)
def test_an_alarm_has_its_own_kind_and_says_what_to_do(status, kind):
    event = alarm_event(status, Alarm(kind=kind, message="it is late", remedy="run its epochs more often"))
    assert event.as_template()["kind"] == kind
    assert event.text == f"paid_orders {kind}: it is late; run its epochs more often"


def test_a_finished_view_has_its_path_epoch_and_rows(status):
    event = finished_event(status, "/lake/view")
    assert (event.kind, event.remedy) == (EventKind.FINISHED, "")
    assert event.text == "paid_orders finished: the view /lake/view is finished as of epoch 1, 1,000 rows were read"


def test_a_view_is_finished_as_of_the_epoch_that_finished_it_and_not_of_a_later_one(status):
    later = status.model_copy(update={"epoch": 8})
    assert "is finished as of epoch 6," in finished_event(later, "/lake/view", 6).message


@pytest.mark.parametrize(("reason", "said"), [("", "task x failed"), ("no such key", "task x failed (no such key)")])
def test_a_failure_has_its_reason_if_that_is_known(status, reason, said):
    event = failed_event("paid_orders", "task x", reason, status)
    assert (event.kind, event.message) == (EventKind.FAILED, said)
    assert "running it again is safe" in event.remedy
    assert event.status["rows_read"] == 1000


def test_a_failure_of_a_job_whose_status_cannot_be_read_is_an_event():
    assert failed_event("paid_orders", "task x", "", None).status is None


def test_a_status_has_no_values_of_rows(status):
    """Positions and keys are values of rows, and messages go to others."""
    fields = status_fields(status)
    assert "very-secret" not in json.dumps(fields)
    assert "vnode_map" not in fields
    assert (fields["verified"]["equal"], fields["name"]) == (False, "paid_orders")
    assert "very-secret" in status.model_dump_json()


def test_a_template_has_the_fields_and_the_text_and_is_plain(status):
    template = finished_event(status, "/lake/view").as_template()
    assert set(template) == {*BackfillEvent.model_fields, "text"}
    assert json.loads(json.dumps(template)) == template


def test_every_alarm_of_the_watchdog_is_a_kind_of_event():
    assert {str(kind) for kind in AlarmKind} == {str(kind) for kind in EventKind} - {"finished", "failed", "ready"}
