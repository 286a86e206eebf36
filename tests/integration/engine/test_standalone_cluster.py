"""A standalone cluster of a master and two workers runs epochs, through spark-submit and through Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.protocol.backfill import Backfill
from airflow_backfill_provider.runtime.process_group import end_group
from airflow_backfill_provider.runtime.spark_settings import spark_conf, spark_environment
from tests.ports import free_port
from tests.warm_engine import warm_engine

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]
WORKERS = 2
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.executor.memory": "512m",
}


class Cluster:
    """
    The daemons of a standalone cluster on this machine.

    :param folder: for their logs and their work.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._daemons: list[subprocess.Popen[str]] = []
        self._pages = free_port()
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(self._pages))
        self._wait(lambda status: status["status"] == "ALIVE")
        for _ in range(WORKERS):
            self._start(
                "Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "512m",
                "--webui-port", str(free_port()), "--work-dir", str(folder / "work"), self.master,
            )  # fmt: skip
        self._wait(lambda status: status["aliveworkers"] == WORKERS)

    def applications(self) -> list[str]:
        """Return the names of the finished and the running applications."""
        status = self._status()
        return [found["name"] for found in [*status["activeapps"], *status["completedapps"]]]

    def stop(self) -> None:
        """End the daemons, and the executors with them."""
        for daemon in reversed(self._daemons):
            end_group(daemon, 10)
            daemon.wait()

    def _start(self, role: str, *arguments: str) -> None:
        command = ["spark-class", f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments]
        with (self._folder / f"{role}{len(self._daemons)}.log").open("w") as log:
            daemon = subprocess.Popen(
                command,
                env={**os.environ, **spark_environment(), "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                text=True,
                start_new_session=True,
            )
        self._daemons.append(daemon)

    def _status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._pages}/json/", timeout=10) as answer:
            status: dict[str, Any] = json.load(answer)
            return status

    def _wait(self, reached: Any) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                if reached(self._status()):
                    return
            except (OSError, json.JSONDecodeError):
                # The master listens before it has all its pages; until then its first page answers for each.
                pass
            time.sleep(0.2)
        raise AssertionError([log.read_text()[-1000:] for log in self._folder.glob("*.log")])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


@pytest.fixture
def backfill(lake: Path) -> Backfill:
    """A job over 400 orders, 200 per epoch."""
    rows = pa.table({"order_id": pa.array(range(400), pa.int64())})
    write_deltalake(str(lake / "orders"), rows, configuration={"delta.enableChangeDataFeed": "true"})
    return Backfill(
        BackfillJob(
            name="cluster_orders",
            upstream={"path": str(lake / "orders"), "key": ["order_id"]},
            materialized_view=str(lake / "view"),
            query="SELECT order_id FROM upstream WHERE order_id % 2 = 0",
            rate_limit=200,
        )
    )


def application(name: str, *arguments: str) -> list[str]:
    return [str(ROOT / "spark_apps" / name), *arguments]


def epoch(backfill: Backfill) -> list[str]:
    """Pin the next epoch; returns the application that runs it."""
    injected = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="tester")
    )
    assert injected.barrier is not None
    return application("backfill_epoch.py", "--state", backfill.job.state, "--epoch", str(injected.barrier.epoch))


def run(command: list[str], **environment: str) -> None:
    done = subprocess.run(
        command,
        env={**os.environ, **spark_environment(), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.exhaustive
def test_epochs_run_on_a_cluster_by_submission_and_through_connect(
    cluster: Cluster, backfill: Backfill, tmp_path: Path
):
    """One epoch is submitted with spark-submit, the next one runs on a Connect server; both on the cluster."""
    conf = {**spark_conf(cluster.master), **SMALL, "spark.driver.host": "127.0.0.1", "spark.app.name": "submitted"}
    submit = ["spark-submit", "--master", cluster.master, *(f"--conf={name}={value}" for name, value in conf.items())]
    definition = backfill.job.model_dump_json()
    with warm_engine(tmp_path / "engine", master=cluster.master, conf={**SMALL, "spark.cores.max": "1"}) as engine:
        on_server = {"SPARK_REMOTE": str(engine.remote)}
        run(
            [sys.executable, *application("backfill_job.py", "create", "--job", definition, "--requested-by", "x")],
            **on_server,
        )
        run([sys.executable, *epoch(backfill)], **on_server)
        run([*submit, "--conf=spark.cores.max=1", *epoch(backfill)])

        rows = DeltaTable(backfill.job.materialized_view).to_pyarrow_table()["order_id"].to_pylist()
        assert sorted(rows) == list(range(0, 400, 2))
        assert backfill.status().progress == 1.0
        assert set(cluster.applications()) >= {"airflow-backfill engine", "submitted"}
