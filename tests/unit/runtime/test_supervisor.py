"""The supervisor of an application: what it keeps of the output, and its record. Processes are in the hook's tests."""

from __future__ import annotations

import io
import os
import socket

import pytest
from pydantic import ValidationError

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.runtime.supervisor import SAID_LINES, TAIL_LINES, Order, Supervisor
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
        "12:00 airflow-backfill: epoch 1 begins",
        "airflow-backfill: epoch 1 ends",
    )
    assert log.splitlines()[0] == "INFO Spark starts"
    assert len(log.splitlines()) == 4
    record = supervisor._current()
    assert (record.said, record.application_id) == (("epoch 1 begins", "epoch 1 ends"), "app-7")
    assert record.web_url == "http://driver:4040"
    assert (record.name, record.attempt, record.host, record.pid) == ("epoch-1", "a", socket.gethostname(), os.getpid())


def test_an_application_may_have_no_pages(supervisor):
    printed(supervisor, "airflow-backfill: spark: app-7")
    assert (supervisor._current().application_id, supervisor._current().web_url) == ("app-7", None)


def test_the_newest_lines_are_kept(supervisor):
    printed(supervisor, *(f"airflow-backfill: {number}" for number in range(SAID_LINES + 5)))
    assert supervisor._current().said == tuple(str(number) for number in range(5, SAID_LINES + 5))


@pytest.mark.parametrize(
    ("code", "lines", "reason"),
    [
        (0, ["airflow-backfill: error: retried, and went well"], ""),
        (1, ["noise", "airflow-backfill: error: no such key", "more noise"], "no such key"),
        (1, ["airflow-backfill: error: first", "airflow-backfill: error: last"], "last"),
        (7, ["one", "two"], "the application ended with exit code 7; the last lines of its output:\none\ntwo"),
    ],
)
def test_a_failure_says_why_or_how_the_output_ended(supervisor, code, lines, reason):
    printed(supervisor, *lines)
    assert supervisor._reason(code) == reason


@pytest.mark.parametrize("code", [-9, 137])
def test_an_application_that_was_killed_is_said_to_be_killed_probably_for_memory(supervisor, code):
    assert f"ended with exit code {code}; it was killed (SIGKILL), most likely because" in supervisor._reason(code)
    assert "ran out of memory" in supervisor._reason(code)


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


def test_the_end_of_long_output_is_repeated(supervisor):
    printed(supervisor, *(f"line {number}" for number in range(TAIL_LINES + 5)))
    assert supervisor._reason(1).splitlines()[1:] == [f"line {number}" for number in range(5, TAIL_LINES + 5)]


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
