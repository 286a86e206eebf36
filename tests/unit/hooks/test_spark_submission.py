"""Submitting to a cluster from a separate process, with scripts instead of Spark's and of ``yarn``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook

pytestmark = pytest.mark.slow  # processes of their own

SECRET = "very-secret"


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Returns what a supervisor would run, given what Spark's program does."""

    def place(name: str, script: str) -> None:
        program = tmp_path / name
        program.write_text(f"#!/bin/bash\n{script}\n", encoding="utf-8")
        program.chmod(0o755)

    def make(script: str) -> tuple[list[str], dict[str, str]]:
        place("spark3-submit", f"printf '%s\\n' \"$@\" > '{tmp_path}/submitted'\n{script}")
        place("yarn", f"echo \"$@\" > '{tmp_path}/killed'")
        place("java", "echo 'openjdk version \"17.0.1\"' >&2")
        connection = {
            "conn_type": "spark",
            "host": "yarn",
            "extra": {"deploy-mode": "cluster", "spark-binary": "spark3-submit"},
        }
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.delenv("JAVA_HOME", raising=False)
        # What a task's process has instead of the database's address.
        monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")
        hook = SparkApplicationHook(spark_conn_id="cluster", conf={"spark.ssl.keyPassword": SECRET}, name="orders")
        environment = hook.environment() | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        return hook.command("backfill_epoch.py", ["--state", "/lake/state", "--epoch", "1"]), environment

    return make


def test_the_submission_gets_connection_and_configuration_from_its_environment_and_reports_its_failure(
    command, tmp_path
):
    words, environment = command("echo 'airflow-backfill: error: no such key'; exit 3")

    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 3, done.stdout
    assert "airflow-backfill: error: no such key" in done.stderr
    submitted = (tmp_path / "submitted").read_text(encoding="utf-8").splitlines()
    assert submitted[:4] == [
        "--master",
        "yarn",
        "--conf",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    ]
    assert submitted[-4:] == ["--state", "/lake/state", "--epoch", "1"]
    assert ("--deploy-mode" in submitted, "cluster" in submitted) == (True, True)
    assert SECRET not in str(words)


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [0, 1])
def test_the_exit_code_says_whether_it_succeeded_and_whether_another_attempt_may_help(command, code):
    words, environment = command(f"exit {code}")

    assert subprocess.run(words, env=environment, check=False).returncode == code


def test_ending_it_kills_the_driver_on_the_cluster(command, tmp_path):
    # The signal probably comes in the middle of a line of its log.
    words, environment = command("echo submitted application_17_42; exec yes running")
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if "application_17_42" in line:
            break

    process.send_signal(signal.SIGTERM)

    process.communicate(timeout=60)
    until = time.monotonic() + 30
    while not (tmp_path / "killed").exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert "-kill application_17_42" in (tmp_path / "killed").read_text(encoding="utf-8")
