"""An event goes to every notifier, whatever one of them does."""

from __future__ import annotations

from airflow_backfill_provider.notifications.backfill import BackfillNotifier
from tests.unit.stand_in import Lake


def test_one_who_cannot_be_told_does_not_keep_the_others_from_it(created: Lake, told, caplog):
    """Whom to tell must not decide over a task."""

    def broken(context):
        raise RuntimeError("no such channel")

    BackfillNotifier(job=created.definition, send=[broken, Told()])(callback("failed"))
    assert told == ["failed small_orders in run_1"]
    assert "no such channel" in caplog.text
