"""Submitting applications, with a script instead of spark-submit."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.core.errors import InstallationError, SparkUnavailableError
from airflow_backfill_provider.hooks import spark_application
from airflow_backfill_provider.hooks.backfill import InvalidConnectionError
from airflow_backfill_provider.hooks.spark_application import KILL_GRACE_SECONDS, SparkApplicationHook, application_path
from airflow_backfill_provider.hooks.watched_output import WatchedOutput
from tests.waiting import start_waiting

OPTIONS = {"AWS_SECRET_ACCESS_KEY": "very-secret", "AWS_REGION": "eu-central-1"}


class Submitted:
    """The arguments of the script that replaces spark-submit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def command(self) -> list[str]:
        return (self.folder / "command").read_text(encoding="utf-8").split("\0")[:-1]

    @property
    def environment(self) -> dict[str, str]:
        lines = (self.folder / "environment").read_text(encoding="utf-8").split("\0")[:-1]
        return dict(line.split("=", 1) for line in lines)

    def conf(self, name: str) -> str | None:
        values = [entry.partition("=")[2] for entry in self.command if entry.startswith(f"{name}=")]
        return values[-1] if values else None


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Submitted]:
    """Replaces spark-submit by a script."""

    def place(script: str = "exit 0") -> Submitted:
        program = tmp_path / "spark-submit"
        program.write_text(
            f"#!/bin/bash\nprintf '%s\\0' \"$@\" > '{tmp_path}/command'\nenv -0 > '{tmp_path}/environment'\n{script}\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        monkeypatch.setattr(spark_application, "spark_environment", lambda: {"PATH": path})
        monkeypatch.setattr(spark_application, "require_java", lambda: None)
        return Submitted(tmp_path)

    return place


def run(hook: SparkApplicationHook) -> list[str]:
    """Run an application; return its messages."""
    said: list[str] = []
    output = WatchedOutput(io.StringIO(), "the/log on here", said.append)
    hook.run("backfill_epoch.py", ["--state", "/lake/state of o'brien", "--epoch", "1"], output)
    return said


def test_without_a_connection_the_application_runs_on_this_machine(spark_submit):
    submitted = spark_submit()

    run(SparkApplicationHook(name="airflow-backfill orders"))

    command = submitted.command
    assert command[:2] == ["--master", "local[*]"]
    assert "airflow-backfill orders" in command
    assert command[-5:] == [
        str(application_path("backfill_epoch.py")),
        "--state",
        "/lake/state of o'brien",
        "--epoch",
        "1",
    ]
    assert submitted.conf("spark.sql.extensions") == "io.delta.sql.DeltaSparkSessionExtension"
    assert submitted.conf("spark.databricks.delta.snapshotPartitions") == "1"


def test_configuration_of_the_user_goes_before_the_packages_own(spark_submit):
    submitted = spark_submit()

    run(SparkApplicationHook(conf={"spark.driver.memory": "5g", "spark.x": 1}))

    assert submitted.conf("spark.driver.memory") == "5g"
    assert submitted.conf("spark.x") == "1"


def test_few_rows_are_read_without_javas_second_compiler_unless_the_user_wants_it(spark_submit):
    submitted = spark_submit()

    run(SparkApplicationHook(rows=1))
    assert "-XX:TieredStopAtLevel=1" in submitted.conf("spark.driver.defaultJavaOptions")

    run(SparkApplicationHook(rows=1, conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}))
    # Java takes the last one, and Spark puts these after the default ones.
    assert submitted.conf("spark.driver.extraJavaOptions") == "-XX:TieredStopAtLevel=4"

    run(SparkApplicationHook(rows=10**9))
    assert "TieredStopAtLevel" not in (submitted.conf("spark.driver.defaultJavaOptions") or "")


def test_a_collector_that_the_user_chose_is_the_only_one(spark_submit, monkeypatch):
    """Java does not start with two."""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    submitted = spark_submit()

    run(SparkApplicationHook(rows=1))
    assert "-XX:+UseSerialGC" in submitted.conf("spark.driver.defaultJavaOptions")

    run(SparkApplicationHook(rows=1, conf={"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}))
    assert "GC" not in submitted.conf("spark.driver.defaultJavaOptions")


def test_a_connection_that_is_missing_is_an_error_and_not_yarn():
    with pytest.raises(InvalidConnectionError, match="there is no Spark connection nowhere; create it, or leave"):
        SparkApplicationHook(spark_conn_id="nowhere")


def test_a_connection_decides_where_the_application_runs(spark_submit, connection):
    submitted = spark_submit()
    conn_id = connection("cluster", "spark", host="spark://master", port=7077, extra=json.dumps({"queue": "night"}))

    run(SparkApplicationHook(spark_conn_id=conn_id))

    assert submitted.command[:2] == ["--master", "spark://master:7077"]
    assert submitted.conf("spark.databricks.delta.snapshotPartitions") is None, "a cluster has its own settings"
    assert "night" in submitted.command


@pytest.mark.parametrize("master", ["local[2]", "yarn", "spark://master:7077"])
def test_storage_options_are_passed_in_the_environment_and_not_on_the_command_line(
    spark_submit, connection, capfd, master
):
    submitted = spark_submit("echo submitted; exit 1")
    conn_id = connection("cluster", "spark", host=master)

    with pytest.raises(AirflowException) as error:
        run(SparkApplicationHook(spark_conn_id=conn_id, storage_options=OPTIONS))

    assert json.loads(submitted.environment["AIRFLOW_BACKFILL_STORAGE_OPTIONS"]) == OPTIONS
    assert "very-secret" not in " ".join(submitted.command)
    log = "".join(capfd.readouterr())
    assert log.index("::group::") < log.index("Spark-Submit cmd") < log.index("::endgroup::"), "folded in the UI"
    assert "very-secret" not in log + str(error.value)


@pytest.mark.parametrize("master", ["yarn", "spark://master:7077"])
def test_storage_options_that_would_need_a_command_line_are_refused(connection, master):
    conn_id = connection("cluster", "spark", host=master, extra=json.dumps({"deploy-mode": "cluster"}))

    with pytest.raises(InvalidConnectionError, match="would have to be on a command line; use deploy mode client") as e:
        SparkApplicationHook(spark_conn_id=conn_id, storage_options=OPTIONS)
    assert "very-secret" not in str(e.value)


def test_a_cluster_without_storage_options_is_accepted(spark_submit, connection):
    submitted = spark_submit()
    conn_id = connection("cluster", "spark", host="yarn", extra=json.dumps({"deploy-mode": "cluster"}))

    run(SparkApplicationHook(spark_conn_id=conn_id))

    assert "--deploy-mode" in submitted.command
    assert not any(entry.startswith("spark.yarn.appMasterEnv") for entry in submitted.command)


def test_secrets_in_the_configuration_show_neither_in_logs_nor_in_errors(spark_submit, capfd):
    spark_submit("exit 1")
    secrets = {
        "spark.hadoop.fs.s3a.access.key": "hidden-1",
        "spark.hadoop.fs.s3a.secret.key": "hidden-2",
        "spark.hadoop.fs.azure.account.key.lake": "hidden-3",
        "spark.hadoop.fs.s3a.session.token": "hidden-4",
        "spark.hadoop.fs.azure.sas.box.lake": "hidden-5",
    }

    with pytest.raises(AirflowException) as error:
        run(SparkApplicationHook(conf=secrets))

    log = "".join(capfd.readouterr())
    assert "spark.hadoop.fs.s3a.access.key=******" in log
    assert "hidden" not in log
    cause: BaseException | None = error.value
    while cause is not None:
        assert "hidden" not in str(cause)
        cause = cause.__cause__


def test_exit_code_1_is_retryable_and_says_why(spark_submit):
    spark_submit("echo noise; echo 'airflow-backfill: error: the disk is full' >&2; echo 'more noise'; exit 1")

    with pytest.raises(AirflowException, match=r"^the disk is full$") as error:
        run(SparkApplicationHook())
    assert not isinstance(error.value, AirflowFailException)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("spark.app.tag", "my_secret", "spark.app.tag=my_secret"),
        ("spark.hadoop.fs.s3a.secret.key", "hidden one", "spark.hadoop.fs.s3a.secret.key=******"),
        ("spark.driver.extraJavaOptions", "-Dpassword=hidden -Dx=1", "-Dpassword=****** -Dx=1"),
    ],
)
def test_a_mask_ends_with_its_argument(spark_submit, capfd, name, value, shown):
    """The setting after a secret one can be read."""
    spark_submit("exit 1")
    with pytest.raises(AirflowException):
        run(SparkApplicationHook(conf={name: value, "spark.zzz": "seen"}))
    log = "".join(capfd.readouterr())
    assert f"{shown} --conf spark.zzz=seen" in log
    assert "encryption[.]key --conf spark." in log, "a pattern of secrets is none"
    assert "hidden" not in log


def test_exit_code_3_fails_for_good_and_says_why(spark_submit):
    spark_submit("echo 'airflow-backfill: error: query: there is no column x' >&2; exit 3")

    with pytest.raises(AirflowFailException, match=r"^query: there is no column x$"):
        run(SparkApplicationHook())


def test_of_sparks_output_only_messages_reach_the_tasks_log(spark_submit, capfd, caplog):
    """The provider's hook logs each line, and its error has the last ones."""
    spark_submit(
        "echo alice@example.com; echo 'java.lang.IllegalStateException: alice@example.com'\n"
        "echo 'airflow-backfill: epoch 1 begins' >&2; exit 1"
    )
    said: list[str] = []
    file = io.StringIO()

    with caplog.at_level("DEBUG"), pytest.raises(AirflowException) as error:
        SparkApplicationHook().run("backfill_epoch.py", [], WatchedOutput(file, "the/log", said.append))

    shown = "".join(traceback.format_exception(error.value)) + "".join(capfd.readouterr()) + caplog.text
    assert "alice" not in shown
    assert "(java.lang.IllegalStateException); its output is in the/log" in str(error.value)
    assert said == ["epoch 1 begins"]
    assert file.getvalue().count("alice@example.com") == 2


def test_the_driver_gets_nothing_of_airflows_own_but_its_jobs_connection(spark_submit, monkeypatch):
    submitted = spark_submit()
    for name in ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_OTHER"):
        monkeypatch.setenv(name, "very-secret")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "the worker's")

    run(SparkApplicationHook(connections={"AIRFLOW_CONN_SHOP": "the job's"}))

    assert "very-secret" not in submitted.environment.values()
    assert {name for name in submitted.environment if name.startswith("AIRFLOW_C")} == {"AIRFLOW_CONN_SHOP"}
    assert submitted.environment["AIRFLOW_CONN_SHOP"] == "the job's"


def test_an_application_that_says_nothing_is_retryable(spark_submit):
    spark_submit("kill -9 $$")

    with pytest.raises(
        AirflowException,
        match=r"ended with exit code -9; its output is in the/log on here; it was killed \(SIGKILL\), .* memory",
    ) as error:
        run(SparkApplicationHook())
    assert not isinstance(error.value, AirflowFailException)


def test_an_environment_without_spark_submit_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(spark_application, "spark_environment", lambda: {"PATH": str(tmp_path)})
    monkeypatch.setattr(spark_application, "require_java", lambda: None)

    with pytest.raises(SparkUnavailableError, match=r"no spark-submit on the PATH; install airflow-backf"):
        run(SparkApplicationHook())


def test_a_machine_without_java_is_refused_before_anything_is_submitted(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(SparkUnavailableError, match="there is no Java on this machine"):
        run(SparkApplicationHook())


def test_an_application_that_is_missing_says_so():
    with pytest.raises(InstallationError, match=r"other.py is missing from the installation"):
        application_path("other.py")


def test_the_real_spark_submit_is_found_first_and_runs_this_python(monkeypatch, tmp_path):
    from airflow_backfill_provider.applications.spark_settings import spark_environment

    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    environment = spark_environment()

    assert environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)
    assert environment["PYSPARK_PYTHON"] == sys.executable


# A leader that ignores SIGTERM, as a busy JVM may seem to, and a child that would outlive it.
STUBBORN = "trap '' TERM\nsleep 300 &\necho $! > {folder}/child\necho $$ > {folder}/leader\nwait; sleep 300"


@pytest.fixture
def running(spark_submit, tmp_path: Path) -> Iterator[tuple[SparkApplicationHook, threading.Thread, list[int]]]:
    """An application that would run for minutes: its hook, the thread that waits for it, its processes."""
    spark_submit(STUBBORN.format(folder=tmp_path))
    hook = SparkApplicationHook()
    thread, failures = start_waiting(lambda: run(hook), tmp_path / "leader")
    time.sleep(0.1)
    yield hook, thread, [int((tmp_path / name).read_text()) for name in ("child", "leader")]
    hook.on_kill()
    thread.join()
    assert len(failures) == 1


def alive(process: int) -> bool:
    """Tell whether a process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_killing_the_task_ends_all_processes_of_the_application(running):
    hook, thread, processes = running
    assert all(alive(process) for process in processes)

    hook.on_kill()
    thread.join(timeout=10)

    assert not thread.is_alive()
    assert not any(alive(process) for process in processes)
    assert KILL_GRACE_SECONDS < 4, "Airflow kills the task itself after five seconds"


def test_killing_a_task_that_runs_nothing_does_nothing():
    SparkApplicationHook().on_kill()


def test_an_application_that_is_killed_before_it_has_a_process_does_not_live_long(spark_submit):
    spark_submit("sleep 300")
    hook = SparkApplicationHook()
    hook.on_kill()

    started = time.monotonic()
    with pytest.raises(AirflowException):
        run(hook)
    assert time.monotonic() - started < 10


def test_a_server_that_the_worker_itself_would_use_is_not_passed_on(spark_submit, monkeypatch):
    submitted = spark_submit()
    monkeypatch.setenv("SPARK_REMOTE", "sc://the.workers.own")
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "very-secret")

    run(SparkApplicationHook())

    assert "SPARK_REMOTE" not in submitted.environment
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN" not in submitted.environment


def test_storage_options_of_the_worker_itself_are_not_passed_on(spark_submit, monkeypatch):
    submitted = spark_submit()
    monkeypatch.setenv("AIRFLOW_BACKFILL_STORAGE_OPTIONS", json.dumps(OPTIONS))

    run(SparkApplicationHook())

    assert "AIRFLOW_BACKFILL_STORAGE_OPTIONS" not in submitted.environment
