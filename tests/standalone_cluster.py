"""
A standalone cluster of the tests' own: a master and two workers, and the applications that are submitted to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.process_group import end_group
from airflow_backfill_provider.applications.spark_settings import spark_conf, spark_environment
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.ports import free_port

ROOT = Path(__file__).parents[1]
WORKERS = 2
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.executor.memory": "512m",
}

_EXECUTOR = "CoarseGrainedExecutorBackend"


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
            self._start_worker()
        self._wait(lambda status: status["aliveworkers"] == WORKERS)

    def applications(self) -> list[str]:
        """Return the names of the finished and the running applications."""
        status = self._status()
        return [found["name"] for found in [*status["activeapps"], *status["completedapps"]]]

    def kill_executor(self) -> None:
        """Kill one of the executors that run; its worker starts another one."""
        executors = [
            process
            for daemon in self._daemons
            for process in psutil.Process(daemon.pid).children(recursive=True)
            if process.status() != psutil.STATUS_ZOMBIE and _EXECUTOR in " ".join(process.cmdline())
        ]
        executors[0].kill()

    def kill_worker(self) -> None:
        """Kill a worker with its executors, as a machine that is lost, and start another one."""
        worker = self._daemons.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
        self._start_worker()

    def stop(self) -> None:
        """End the daemons, and the executors with them."""
        for daemon in reversed(self._daemons):
            end_group(daemon, 10)
            daemon.wait()

    def _start_worker(self) -> None:
        self._start(
            "Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "512m",
            "--webui-port", str(free_port()), "--work-dir", str(self._folder / "work"), self.master,
        )  # fmt: skip

    def _start(self, role: str, *arguments: str) -> None:
        command = ["spark-class", f"org.apache.spark.deploy.{role.lower()}.{role}", *arguments]
        with (self._folder / f"{role}{free_port()}.log").open("w") as log:
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


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """Run a cluster, and stop it at the end."""
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


def submission(cluster: Cluster, name: str, conf: Mapping[str, str]) -> list[str]:
    """Return the command that submits an application in deploy mode ``client``."""
    settings = {
        **spark_conf(cluster.master), **SMALL, "spark.driver.host": "127.0.0.1", "spark.app.name": name, **conf
    }  # fmt: skip
    return ["spark-submit", "--master", cluster.master, *(f"--conf={key}={value}" for key, value in settings.items())]


def application(name: str, *arguments: str) -> list[str]:
    """Return an application of this package with its arguments."""
    return [str(ROOT / "spark_apps" / name), *arguments]


def creation(backfill: Backfill) -> list[str]:
    """Return the application that creates a job."""
    definition = backfill.job.model_dump_json()
    return application("backfill_job.py", "create", "--job", definition, "--requested-by", "tester")


def next_epoch(backfill: Backfill) -> list[str]:
    """Pin the next epoch; return the application that runs it."""
    injected = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="tester")
    )
    assert injected.barrier is not None
    return application("backfill_epoch.py", "--state", backfill.job.state, "--epoch", str(injected.barrier.epoch))


def begin(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start an application, as the leader of a group of its processes."""
    return subprocess.Popen(
        command,
        env={**os.environ, **spark_environment(), "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(running: subprocess.Popen[str]) -> None:
    """Wait for an application, which must succeed."""
    _, errors = running.communicate(timeout=400)
    assert running.returncode == 0, errors[-3000:]


def run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run an application, which must succeed."""
    finish(begin(command, environment))
