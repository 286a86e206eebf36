"""The supervisor of an application: what it keeps of the output, and its record. Processes are in the hook's tests."""

from __future__ import annotations

import io
import os
import socket

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.applications.supervisor import Order, Supervisor
from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.state.applications import ApplicationRecords

SECRET = "very-secret"


def order_of(lake, **fields):
    order = {"state": str(lake / "state"), "name": "epoch-1", "attempt": "a", "command": ["true"], "log": "/log"}
    return Order(**{**order, "environment": {"TOKEN": SECRET}, **fields})


@pytest.fixture
def supervisor(lake):
    return Supervisor(order_of(lake))


def printed(supervisor, *lines):
    """Let an application print some lines; return the log."""
    log = io.StringIO()
    supervisor._read(io.StringIO("".join(f"{line}\n" for line in lines)), log)
    return log.getvalue()


def test_an_order_shows_no_secret_and_knows_its_fields(lake):
    order = order_of(lake, storage_options={"AWS_SECRET_ACCESS_KEY": SECRET})
    assert SECRET not in repr(order)
    assert Order.model_validate_json(order.model_dump_json()) == order
    with pytest.raises(ValidationError, match="nonsense"):
        order_of(lake, nonsense=1)


def test_all_output_goes_to_the_log_and_messages_go_into_the_record(supervisor):
    log = printed(
        supervisor,
        "INFO Spark starts",
        "airflow-backfill: spark: app-7 http://driver:4040",
        "airflow-backfill: epoch 1 begins",
        "airflow-backfill: epoch 1 ends",
    )
    assert log.splitlines()[0] == "INFO Spark starts"
    assert len(log.splitlines()) == 4
    record = supervisor._current()
    assert (record.said, record.application_id) == (("epoch 1 begins", "epoch 1 ends"), "app-7")
    assert record.web_url == "http://driver:4040"
    assert (record.name, record.attempt, record.host, record.pid) == ("epoch-1", "a", socket.gethostname(), os.getpid())


def test_a_failure_without_a_message_names_the_log_and_quotes_no_line(supervisor, lake):
    printed(supervisor, "a row", "java.lang.OutOfMemoryError: a row")
    supervisor._write_end(137)
    error = ApplicationRecords(str(lake / "state")).read("epoch-1").error
    host = socket.gethostname()
    assert error.startswith(
        f"the application ended with exit code 137 (java.lang.OutOfMemoryError); its output is in /log on {host}; it "
        "was killed (SIGKILL), most likely because its host or container ran out of memory"
    )


def test_an_attempt_that_stops_slowly_does_not_overwrite_the_next_ones_record(lake, supervisor):
    """The next one would take the end for its own, and its supervisor would take itself for superseded."""
    records = ApplicationRecords(str(lake / "state"))
    records.write(supervisor._record)
    newer = supervisor._record.model_copy(update={"attempt": "b"})
    records.write(newer)
    supervisor._write_end(143)
    assert records.read("epoch-1") == newer


def test_the_log_of_an_attempt_that_another_one_followed_says_where_the_output_is(lake, supervisor):
    """Of two tasks that create a job at once, one has an empty log."""
    newer = {"attempt": "b", "started_by": "d.create of run 2", "log": "/logs/b.log", "host": "there"}
    ApplicationRecords(str(lake / "state")).write(supervisor._record.model_copy(update=newer))
    assert supervisor._successor() == (
        "ended, because another attempt was started by d.create of run 2 on there; its output is in /logs/b.log\n"
    )


def test_the_end_is_written_with_all_that_is_known(supervisor, lake):
    printed(supervisor, "airflow-backfill: epoch 1 ends")
    supervisor._write_end(3)
    record = ApplicationRecords(str(lake / "state")).read("epoch-1")
    assert (record.exit_code, record.retryable, record.said) == (3, False, ("epoch 1 ends",))
    assert record.ended_at >= record.started_at
    assert SECRET not in record.model_dump_json()


def test_a_sign_of_life_that_cannot_be_written_ends_nothing(supervisor, lake):
    (lake / "state").write_text("a file in its place", encoding="utf-8")

    supervisor._write(supervisor._current())

    with pytest.raises(StorageUnavailableError):
        supervisor._records.write(supervisor._current())
