"""The events of a job as notifiers get them."""

from __future__ import annotations

from airflow_backfill_provider.core.watchdog import Alarm, AlarmKind
from airflow_backfill_provider.notifications.events import alarm_event
from tests.unit.stand_in import Lake


def test_an_alarm_is_told_by_its_own_kind_and_with_what_to_do_about_it(created: Lake):
    status, remedy = created.backfill.status(), "run its epochs more often"
    for kind in AlarmKind:
        event = alarm_event(status, Alarm(kind=kind, message="it is late", remedy=remedy))
        assert event.as_template()["kind"] == kind
        assert event.text == f"small_orders {kind}: it is late; {remedy}"
