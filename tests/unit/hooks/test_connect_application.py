"""Applications as clients of a Spark Connect server, with a program instead of an application."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.hooks import connect_application
from airflow_backfill_provider.hooks.backfill import InvalidConnectionError
from airflow_backfill_provider.hooks.connect_application import ConnectApplicationHook
from airflow_backfill_provider.hooks.watched_output import WatchedOutput
from tests.waiting import start_waiting

OPTIONS = {"AWS_SECRET_ACCESS_KEY": "very-secret-1"}
CONF = {"spark.hadoop.fs.s3a.secret.key": "very-secret-2", "spark.sql.shuffle.partitions": 8}
TELL = "import json, os, sys\njson.dump([sys.argv[1:], dict(os.environ)], open({file!r}, 'w'))\n"


@pytest.fixture
def server(connection: Callable[..., str]) -> str:
    """A connection to a server with a token."""
    return connection(
        "warm", "spark_connect", host="spark.example", port=443, login="me", password="very-secret-3",
        extra=json.dumps({"use_ssl": True}),
    )  # fmt: skip


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Replaces every application by a program; returns the file with the program's arguments."""

    def place(program: str = "") -> Path:
        file = tmp_path / "called"
        (tmp_path / "application.py").write_text(TELL.format(file=str(file)) + program, encoding="utf-8")
        monkeypatch.setattr(connect_application, "application_path", lambda _: tmp_path / "application.py")
        return file

    return place


def run(hook: ConnectApplicationHook) -> list[str]:
    """Run an application; return its messages."""
    said: list[str] = []
    hook.run("backfill_epoch.py", ["--epoch", "1"], WatchedOutput(io.StringIO(), "the/log on here", said.append))
    return said


def test_an_application_runs_as_a_client_of_the_server(server, application, monkeypatch):
    called = application()
    monkeypatch.setenv("SPARK_REMOTE", "sc://the.workers.own")

    run(
        ConnectApplicationHook(spark_conn_id=server, conf=CONF, storage_options=OPTIONS, name="airflow-backfill orders")
    )

    arguments, environment = json.loads(called.read_text())
    assert arguments == ["--epoch", "1"]
    assert environment["SPARK_REMOTE"] == "sc://spark.example:443/;user_id=me;use_ssl=true"
    assert environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == "very-secret-3"
    assert environment["AIRFLOW_BACKFILL_APPLICATION"] == "airflow-backfill orders"
    assert json.loads(environment["AIRFLOW_BACKFILL_STORAGE_OPTIONS"]) == OPTIONS
    assert json.loads(environment["AIRFLOW_BACKFILL_SESSION_CONF"]) == {**CONF, "spark.sql.shuffle.partitions": "8"}


def test_no_secret_is_on_the_command_line_or_in_the_log(server, application, capfd):
    application("print('hello'); sys.exit(1)")
    hook = ConnectApplicationHook(spark_conn_id=server, conf=CONF, storage_options=OPTIONS)

    with pytest.raises(AirflowException) as error:
        run(hook)

    assert "very-secret" not in " ".join(hook.command("backfill_epoch.py", ["--epoch", "1"]))
    assert "very-secret" not in "".join(capfd.readouterr()) + str(error.value) + repr(hook.__dict__["_remote"])


def test_the_workers_own_environment_is_not_passed_on(connection, application, monkeypatch):
    called = application()
    for name in (
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "AIRFLOW_BACKFILL_STORAGE_OPTIONS",
        "AIRFLOW_BACKFILL_SESSION_CONF",
    ):
        monkeypatch.setenv(name, "{}")

    run(ConnectApplicationHook(spark_conn_id=connection("warm", "spark_connect", host="localhost")))

    environment = json.loads(called.read_text())[1]
    assert environment["SPARK_REMOTE"] == "sc://localhost:15002"
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" not in environment
    assert "AIRFLOW_BACKFILL_STORAGE_OPTIONS" not in environment


@pytest.mark.parametrize("host", [None, "", "sc://spark.example/path", "spark.example/;token=very-secret"])
def test_a_connection_that_names_no_server_is_refused_and_not_repeated(connection, host):
    conn_id = connection("warm", "spark_connect", host=host)

    with pytest.raises(InvalidConnectionError, match="Spark Connect connection warm") as error:
        ConnectApplicationHook(spark_conn_id=conn_id)
    assert "very-secret" not in str(error.value)


def test_exit_code_1_is_retryable_and_says_why(server, application):
    application("print('noise'); print('airflow-backfill: error: no answer', file=sys.stderr); sys.exit(1)")

    with pytest.raises(AirflowException, match=r"^no answer$") as error:
        run(ConnectApplicationHook(spark_conn_id=server))
    assert not isinstance(error.value, AirflowFailException)


def test_of_the_output_only_messages_reach_the_tasks_log(server, application, capfd):
    application("print('alice'); print('airflow-backfill: epoch 1 begins', file=sys.stderr)")
    assert run(ConnectApplicationHook(spark_conn_id=server)) == ["epoch 1 begins"]
    assert "alice" not in "".join(capfd.readouterr())


def test_the_client_gets_nothing_of_airflows_own(server, application, monkeypatch):
    called = application()
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "very-secret")
    run(ConnectApplicationHook(spark_conn_id=server, connections={"AIRFLOW_CONN_SHOP": "the job's"}))
    environment = json.loads(called.read_text())[1]
    assert [name for name in environment if name.startswith(("AIRFLOW__", "AIRFLOW_CONN"))] == ["AIRFLOW_CONN_SHOP"]


def test_exit_code_3_fails_for_good(server, application):
    application("print('airflow-backfill: error: query: wrong', file=sys.stderr); sys.exit(3)")

    with pytest.raises(AirflowFailException, match=r"^query: wrong$"):
        run(ConnectApplicationHook(spark_conn_id=server))


def test_killing_the_task_ends_the_application_politely(server, application, tmp_path: Path):
    ended = tmp_path / "ended"
    called = application(
        "import pathlib, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path({str(ended)!r}).touch(), sys.exit(143)))\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "time.sleep(300)\n"
    )
    hook = ConnectApplicationHook(spark_conn_id=server)
    thread, failures = start_waiting(lambda: run(hook), tmp_path / "ready")
    hook.on_kill()
    thread.join(timeout=30)

    assert called.exists()
    assert ended.exists()
    assert len(failures) == 1
    assert not isinstance(failures[0], AirflowFailException)


def test_a_task_that_was_killed_before_it_had_a_process_does_not_run_long(server, application):
    application("import time; time.sleep(300)")
    hook = ConnectApplicationHook(spark_conn_id=server)
    hook.on_kill()

    with pytest.raises(AirflowException):
        run(hook)
