"""An event goes through every sender, whatever one of them does."""

from __future__ import annotations

from airflow_backfill_provider.notifications.delivery import TEMPLATE_NAME, deliver
from airflow_backfill_provider.notifications.events import BackfillEvent, EventKind

EVENT = BackfillEvent(kind=EventKind.FAILED, job="orders", message="it failed")


def test_each_sender_gets_the_context_with_the_event():
    sent = []
    deliver(EVENT, [sent.append, sent.append], {"run_id": "run_1"})
    assert sent == [{"run_id": "run_1", TEMPLATE_NAME: EVENT.as_template()}] * 2


def test_the_context_itself_stays_as_it_is():
    context = {"run_id": "run_1"}
    deliver(EVENT, [lambda given: given.clear()], context)
    assert context == {"run_id": "run_1"}


def test_one_that_fails_does_not_keep_the_others_from_sending(caplog):
    """A notification must not decide how a task ends."""
    sent = []

    def broken(context):
        raise RuntimeError("no such channel")

    deliver(EVENT, [broken, sent.append], {})
    assert len(sent) == 1
    assert "function failed to send: orders failed: it failed" in caplog.text
    assert "no such channel" in caplog.text


class InPlace:
    """Renders its template in place, as a notifier of Airflow does."""

    rendered: list[str] = []  # noqa: RUF012 - shared by the copies

    def __init__(self):
        self.text = "{kind}"

    def __call__(self, context):
        self.text = self.text.format(**context[TEMPLATE_NAME])
        self.rendered.append(self.text)


def test_a_sender_that_renders_in_place_renders_each_event():
    sender = InPlace()
    for kind in (EventKind.FAILED, EventKind.STALLED):
        deliver(EVENT.model_copy(update={"kind": kind}), [sender], {})
    assert (InPlace.rendered, sender.text) == (["failed", "stalled"], "{kind}")
