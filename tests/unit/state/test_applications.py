"""What is known of a job's applications beside its control tables."""

from __future__ import annotations

from pathlib import Path

from airflow_backfill_provider.core.application import ServerSession
from airflow_backfill_provider.state.applications import ApplicationRecords

SESSION = ServerSession(server="spark.example:15002", user_id="me", session_id="0a")


def test_a_session_on_a_server_is_known_until_it_is_forgotten(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    assert records.session("driver") is None

    records.write_session("driver", SESSION)
    assert ApplicationRecords(str(lake / "state")).session("driver") == SESSION
    assert records.session("epoch-snapshot-1") is None

    records.forget_session("driver")
    assert records.session("driver") is None


def test_a_session_that_cannot_be_read_is_not_known(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    records.write_session("driver", SESSION)
    Path(records.location, "driver.session").write_text("{", encoding="utf-8")

    assert records.session("driver") is None
