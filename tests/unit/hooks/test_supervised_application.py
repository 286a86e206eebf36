"""Applications that outlive the process that started them, with scripts instead of Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from airflow.sdk.exceptions import AirflowException
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.hooks.supervised_application import SupervisedApplication
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.unit.lifeline import HANG_IN_BASH
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # processes of their own

SECRET = "very-secret"
FOREVER = f"trap 'echo told to end; exit 7' TERM; {HANG_IN_BASH}"


class Script:
    """Stands in for the hook that knows how to submit an application: a shell script."""

    def __init__(self, text: str) -> None:
        self.text = text

    def command(self, application: str, arguments: list[str]) -> list[str]:
        return ["bash", "-c", self.text, application, *arguments]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "TOKEN": SECRET}


@pytest.fixture
def records(lake: Path) -> ApplicationRecords:
    return ApplicationRecords(str(lake / "state"))


@pytest.fixture
def start(lake: Path, lifeline: None) -> Callable[..., ApplicationRecord]:
    """Starts a script as an application."""

    def make(text: str, *arguments: str) -> ApplicationRecord:
        return supervised(lake).start(Script(text), "app.py", list(arguments))

    return make


def supervised(lake: Path) -> SupervisedApplication:
    return SupervisedApplication(
        state=str(lake / "state"), storage_options={"AWS_SECRET_ACCESS_KEY": SECRET}, job="orders", name="epoch-1"
    )


class NotYetError(Exception):
    """The wait is not over."""


def wait_until(condition: Callable[[], object]) -> None:
    @retry(retry=retry_if_exception_type(NotYetError), stop=stop_after_delay(60), wait=wait_fixed(0.05), reraise=True)
    def look() -> None:
        if not condition():
            raise NotYetError

    look()


def end_of(record: ApplicationRecord, records: ApplicationRecords) -> ApplicationRecord:
    wait_until(lambda: (known := records.read(record.name)) and known.attempt == record.attempt and known.ended)
    known = records.read(record.name)
    assert known is not None
    return known


def test_an_application_that_does_its_work_has_succeeded(start, records, tmp_path):
    may_end = tmp_path / "may_end"
    os.mkfifo(may_end)
    record = start(
        'echo noise; echo "airflow-backfill: $0 did $1"; echo "airflow-backfill: spark: local-1 http://ui:4040"; '
        'read -r _ <"$2"',
        "it",
        str(may_end),
    )
    assert not record.ended
    may_end.write_text("it may\n", encoding="utf-8")

    end = end_of(record, records)

    assert end.succeeded
    assert end.error == ""
    assert end.said == ("app.py did it",)
    assert (end.application_id, end.web_url) == ("local-1", "http://ui:4040")
    assert "noise" in Path(end.log).read_text(encoding="utf-8")


@pytest.mark.parametrize(("code", "retryable"), [exhaustive(1, True), (3, False)])
def test_a_failure_says_why_and_whether_another_attempt_may_help(start, records, code, retryable):
    end = end_of(start(f"echo 'airflow-backfill: error: no such key'; exit {code}"), records)

    assert (end.exit_code, end.error, end.retryable) == (code, "no such key", retryable)
    assert not end.succeeded


def test_a_failure_without_a_message_names_the_log_and_quotes_no_line_of_it(start, records):
    end = end_of(start("echo alice@example.com; echo java.lang.OutOfMemoryError: alice; exit 1"), records)

    assert "exit code 1 (java.lang.OutOfMemoryError)" in end.error
    assert end.log in end.error
    assert "alice" not in end.model_dump_json()
    assert "alice@example.com" in Path(end.log).read_text(encoding="utf-8")


def test_the_supervisor_inherits_nothing_of_airflows_own(start, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", SECRET)
    environment = Path(f"/proc/{start(HANG_IN_BASH).pid}/environ").read_text(encoding="utf-8")
    assert SECRET not in environment


@pytest.mark.exhaustive
def test_an_application_that_is_killed_has_failed_and_is_retryable(start, records):
    end = end_of(start("kill -9 $$"), records)

    assert (end.exit_code, end.retryable, end.succeeded) == (-signal.SIGKILL, True, False)


def test_a_command_that_does_not_exist_is_a_failure(lake, records, start):
    script = Script("")
    script.command = lambda *_: ["/no/such/spark-submit"]
    end = end_of(supervised(lake).start(script, "app.py", []), records)

    assert "/no/such/spark-submit cannot be started" in end.error


def test_stopping_ends_the_application_and_everything_that_it_started(lake, start, records):
    record = start(f"({HANG_IN_BASH}) & {FOREVER}")
    wait_until(lambda: len(psutil.Process(record.pid).children(recursive=True)) >= 2)
    family = psutil.Process(record.pid).children(recursive=True)

    supervised(lake).stop()

    assert supervised(lake).running() is None, "a retry starts another one"
    end = end_of(record, records)
    assert (end.error, end.succeeded) == ("the application was stopped on request", False)
    assert not psutil.wait_procs(family, 20)[1]


def test_a_supervisor_that_is_terminated_ends_its_application(start, records):
    record = start(FOREVER)

    os.kill(record.pid, signal.SIGTERM)

    assert end_of(record, records).error == "the application was stopped on request"


@pytest.mark.exhaustive
def test_another_attempt_replaces_one_that_runs(lake, start, records):
    first = start(FOREVER)
    family = psutil.Process(first.pid).children(recursive=True)

    second = start("true")

    assert not psutil.wait_procs([*family], 20)[1]
    end = end_of(second, records)
    assert (end.attempt, end.succeeded) == (second.attempt, True)
    wait_until(lambda: not psutil.pid_exists(first.pid) or psutil.Process(first.pid).status() == psutil.STATUS_ZOMBIE)
    assert records.read("epoch-1") == end, "the one that gave way wrote nothing"


def test_a_supervisor_outlives_the_process_that_started_it(lake, records):
    script = (
        "import sys; from tests.unit.hooks.test_supervised_application import *\n"
        "supervised(Path(sys.argv[1])).start(Script('sleep 2; echo airflow-backfill: still here'), 'app.py', [])\n"
        "os.killpg(0, signal.SIGKILL)"
    )
    died = subprocess.run([sys.executable, "-c", script, str(lake)], start_new_session=True, check=False)

    assert died.returncode == -signal.SIGKILL
    record = supervised(lake).running()
    assert record is not None
    assert end_of(record, records).said == ("still here",)


@pytest.mark.exhaustive
def test_a_supervisor_shows_that_it_lives(start, records):
    record = start(FOREVER)

    wait_until(lambda: records.read("epoch-1").heartbeat > record.heartbeat)


def test_secrets_are_on_no_command_line_and_in_no_record(start, records):
    record = start(FOREVER)
    processes = [psutil.Process(record.pid), *psutil.Process(record.pid).children(recursive=True)]

    assert SECRET not in str([process.cmdline() for process in processes])
    assert SECRET not in records.read("epoch-1").model_dump_json()


@pytest.mark.exhaustive
def test_a_supervisor_that_cannot_write_its_record_does_not_come_up(lake):
    (lake / "state").write_text("a file in its place", encoding="utf-8")

    with pytest.raises(AirflowException, match=r"did not start: .*StorageUnavailableError"):
        supervised(lake).start(Script("true"), "app.py", [])


def test_an_application_gets_the_environment_that_it_is_given_and_no_other(lake, records, monkeypatch):
    """The worker may have credentials and servers of its own, which are not meant for it."""
    monkeypatch.setenv("UNRELATED", "a value of the worker's")
    script = Script('echo "airflow-backfill: token ${TOKEN:-none}, unrelated ${UNRELATED:-none}"')
    script.environment = lambda: {"PATH": os.environ["PATH"], "TOKEN": "given"}

    end = end_of(supervised(lake).start(script, "app.py", []), records)

    assert end.said == ("token given, unrelated none",)


@pytest.mark.exhaustive
def test_an_application_and_its_end_survive_a_storage_that_does_not_answer_for_a_while(lake, start, records):
    """A file instead of the folder while it runs, and still when it ends."""
    applications, elsewhere = Path(records.location), lake / "elsewhere"
    record = start("sleep 1.5; echo airflow-backfill: did it")
    applications.rename(elsewhere)
    applications.write_text("in its place", encoding="utf-8")
    log = Path(record.log)
    wait_until(lambda: "did it" in log.read_text(encoding="utf-8"))
    assert psutil.pid_exists(record.pid)
    time.sleep(0.5)
    applications.unlink()
    elsewhere.rename(applications)

    end = end_of(record, records)

    assert (end.succeeded, end.said) == (True, ("did it",))
    assert list(applications.parent.iterdir()) == [applications]
