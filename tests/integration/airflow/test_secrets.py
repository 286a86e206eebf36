"""Canaries: secrets that no log, XCom, rendered template, table, command line or page may ever show."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.airflow_home import AIRFLOW_HOME
from tests.integration.airflow.orders import Orders

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(600)]

SECRETS = {
    "AWS_ACCESS_KEY_ID": "canary-access-key-5f0c",
    "AWS_SECRET_ACCESS_KEY": "canary-secret-key-91be",
    "AWS_SESSION_TOKEN": "canary-session-token-77aa",
}


class CommandLines(threading.Thread):
    """Reads the command lines of all processes until it is stopped; every user of the machine can read them."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: set[str] = set()
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.5):
            for process in psutil.process_iter():
                try:
                    self.seen.add("\0".join(process.cmdline()))
                except psutil.Error:
                    continue

    def stop(self) -> None:
        self._ended.set()
        self.join()


@pytest.fixture
def command_lines() -> Iterator[CommandLines]:
    watcher = CommandLines()
    watcher.start()
    yield watcher
    watcher.stop()


@pytest.mark.exhaustive
def test_secrets_appear_nowhere(orders: Orders, environment, run_dag, command_lines, capfd, tmp_path):
    """An epoch, and a task that fails, with the options of an object store that local tables do not need."""
    extra = {"secret_storage_options": SECRETS, "storage_options": {"AWS_REGION": "eu-north-1"}}
    connection = {"conn_type": "airflow_backfill", "extra": json.dumps(extra)}
    environment.setenv("AIRFLOW_CONN_AIRFLOW_BACKFILL_DEFAULT", json.dumps(connection))
    # A separate Spark, because the shared one gets them through its environment.
    environment.delenv("AIRFLOW_BACKFILL_SPARK_CONNECTION")
    orders.define(name="canary_orders", materialized_view=str(tmp_path / "canary orders"), rate_limit=None)

    assert run_dag("backfill_manual", {"job": str(orders.file), "epochs": 1}).state == "success"
    assert orders.view() == orders.expected()
    orders.define(name="canary_orders", upstream={"path": str(tmp_path / "s3a nowhere"), "key": ["order_id"]})
    assert run_dag("backfill_manual", {"job": str(orders.file), "epochs": 1}).state == "failed"

    command_lines.stop()
    printed = capfd.readouterr()
    outputs = {
        "what was printed": printed.out + printed.err,
        "a command line": "\n".join(command_lines.seen),
        "Airflow's database": database(),
        **{str(file): file.read_bytes().decode("utf-8", "replace") for file in files(AIRFLOW_HOME / "logs")},
        **{str(file): file.read_bytes().decode("utf-8", "replace") for file in files(tmp_path, orders.folder)},
    }
    # The script of that name is replaced by Java within a moment, which may fall between two reads.
    assert any("SparkSubmit" in line for line in command_lines.seen), "else there was nothing to look at"
    assert any("canary orders/_delta_log" in output for output in outputs)
    assert "canary_orders" in outputs["Airflow's database"]
    found = [(output, name) for output, text in outputs.items() for name, secret in SECRETS.items() if secret in text]
    assert found == []


def files(*folders: Path) -> list[Path]:
    return [file for folder in folders for file in folder.rglob("*") if file.is_file()]


def database() -> str:
    """Return all that Airflow wrote down: XComs, rendered templates, task states, audit log."""
    with closing(sqlite3.connect(AIRFLOW_HOME / "airflow.db")) as connection:
        connection.text_factory = lambda content: content.decode("utf-8", "replace")
        return "\n".join(connection.iterdump())
