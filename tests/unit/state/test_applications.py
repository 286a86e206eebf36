"""What is known of a job's applications beside its control tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_backfill_provider.core.application import ApplicationRecord, ServerSession
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.builders import NOW

RECORD = ApplicationRecord(name="epoch-1", attempt="0a", host="here", pid=7, started_at=NOW, log="/log")
SESSION = ServerSession(server="spark.example:15002", user_id="me", session_id="0a")


def test_a_session_on_a_server_is_known_until_it_is_forgotten(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    assert records.session("driver") is None

    records.write_session("driver", SESSION)
    assert ApplicationRecords(str(lake / "state")).session("driver") == SESSION
    assert records.session("epoch-read-chunk-part-1") is None

    records.forget_session("driver")
    assert records.session("driver") is None


def test_a_session_that_cannot_be_read_is_not_known(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    records.write_session("driver", SESSION)
    Path(records.location, "driver.session").write_text("{", encoding="utf-8")

    assert records.session("driver") is None


def test_a_stop_is_requested_of_one_attempt_and_not_of_the_next(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    assert not records.stop_requested(RECORD)

    records.request_stop(RECORD)
    assert records.stop_requested(RECORD)
    assert not records.stop_requested(RECORD.model_copy(update={"attempt": "0b"}))


def test_one_of_several_that_wait_knows_of_the_others(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    assert records.others_waiting("epoch-1", "d.a of run 1") == []
    records.begin_wait("epoch-1", "t1", "d.a of run 1")
    records.begin_wait("epoch-1", "t2", "d.a of run 1")
    records.begin_wait("epoch-1", "t3", "d.ä/b of run 2")
    records.begin_wait("epoch-1-apply-changes", "t4", "d.c of run 3")

    assert records.others_waiting("epoch-1", "d.a of run 1") == ["d.ä/b of run 2"]
    assert records.others_waiting("epoch-1", "d.ä/b of run 2") == ["d.a of run 1"]
    records.end_wait("epoch-1", "t1")
    records.end_wait("epoch-1", "t1")
    assert records.others_waiting("epoch-1", "d.ä/b of run 2") == ["d.a of run 1"], "its next try waits"
    records.end_wait("epoch-1", "t2")
    assert records.others_waiting("epoch-1", "d.ä/b of run 2") == []


def test_who_asked_for_a_stop_is_known(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    assert records.stopped_by("epoch-1") == ""
    records.request_stop(RECORD, "d.a of run 1")
    assert records.stopped_by("epoch-1") == "d.a of run 1"


def test_forgetting_an_application_leaves_nothing_not_even_a_folder(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    records.write(RECORD)
    records.request_stop(RECORD)
    records.begin_wait(RECORD.name, "t1", "d.a of run 1")

    records.forget(RECORD.name)
    assert (records.read(RECORD.name), records.stop_requested(RECORD)) == (None, False)
    assert list(lake.iterdir()) == []


def test_forgetting_one_application_leaves_the_others(lake: Path):
    records = ApplicationRecords(str(lake / "state"))
    other = RECORD.model_copy(update={"name": "epoch-2"})
    records.write(RECORD)
    records.write(other)

    records.forget(RECORD.name)
    assert (records.read(RECORD.name), records.read(other.name)) == (None, other)


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff"], ids=repr)
def test_a_record_that_cannot_be_read_is_not_known(lake: Path, content: bytes):
    records = ApplicationRecords(str(lake / "state"))
    records.write(RECORD)
    Path(records.location, "epoch-1.json").write_bytes(content)

    assert records.read(RECORD.name) is None


def test_a_record_is_replaced_as_a_whole(lake: Path):
    """A reader that has begun with the old one goes on with it, and does not see half of the new one."""
    records = ApplicationRecords(str(lake / "state"))
    records.write(RECORD)
    with Path(records.location, "epoch-1.json").open(encoding="utf-8") as old:
        records.write(RECORD.with_next_heartbeat())
        assert ApplicationRecord.model_validate_json(old.read()) == RECORD
    assert records.read(RECORD.name) == RECORD.with_next_heartbeat()
    assert [file.name for file in Path(records.location).iterdir()] == ["epoch-1.json"]
