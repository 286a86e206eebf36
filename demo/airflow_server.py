"""
Airflow with its default configuration: SQLite, LocalExecutor, and four processes.

``airflow standalone`` does the same, but leaves running processes when it is stopped.

SQLite has one writer at a time. Under load, as of a native backfill, a process waits for the others, and the scheduler
may end with "database is locked", with a process that lives on. So the database waits longer than by default and lets
readers go on meanwhile, and whoever runs this server for long starts again what has ended.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.folder import CHECKOUT, DemoError, DemoFolder, Size
from demo.processes import Processes, free_port

DAG = "backfill_scheduled"
START_SECONDS = 240
COMPONENTS = ("scheduler", "dag-processor", "triggerer", "api-server")
REPORTING = {"scheduler": "scheduler", "dag_processor": "dag-processor", "triggerer": "triggerer"}
"""The components that report to the database, by their names in the health check."""

BUSY_SECONDS = 60
START_LOOKS = 12
LOST_LOOKS = 3
"""After so many looks without a sign of life, a component has ended, even if its process lives."""


class AirflowServer:
    """
    The Airflow of the demo.

    :param folder: the demo's folder, with Airflow's home and the job.
    :param size: how many epochs a DAG run runs.
    :param processes: starts and ends Airflow's processes.
    :param environment: further environment variables, such as connections.
    :param more_jobs: the files of jobs over the view of the demo's job, which the same DAG runs.
    """

    def __init__(
        self,
        folder: DemoFolder,
        size: Size,
        processes: Processes,
        environment: Mapping[str, str] | None = None,
        more_jobs: Sequence[Path] = (),
    ) -> None:
        self._processes = processes
        self._port = free_port(8080)
        self._environment = {
            **_environment(folder, size, self._port),
            "AIRFLOW_BACKFILL_MORE_JOBS": os.pathsep.join(map(str, more_jobs)),
            **(environment or {}),
        }
        self._token = ""
        self._database = folder.airflow_home / "airflow.db"
        self._silent: Counter[str] = Counter()

    @property
    def url(self) -> str:
        """The address of the UI, which needs no login."""
        return f"http://localhost:{self._port}"

    def begin_database(self) -> None:
        """Start the creation of the database."""
        self._airflow("db", "migrate", name="airflow-db")

    def start(self, dags: Collection[str] = (DAG,)) -> None:
        """
        Start all processes once the database exists, wait until the DAGs can be triggered, and unpause the demo's DAG.

        :param dags: the DAGs that must be parsed.
        :raises DemoError: if Airflow does not start.
        """
        self._processes.finish("airflow-db")
        with closing(sqlite3.connect(self._database)) as database:
            database.execute("PRAGMA journal_mode=WAL")
        for component in COMPONENTS:
            self._airflow(component, name=f"airflow-{component}")
        until = time.monotonic() + START_SECONDS
        while not self._ready(dags):
            self._processes.require_alive()
            if time.monotonic() > until:
                raise DemoError(f"Airflow did not start within {START_SECONDS} s; see airflow-*.log in the logs")
            time.sleep(1)
        self._call("PATCH", f"dags/{DAG}", {"is_paused": False})

    def revive(self) -> list[str]:
        """
        Start the components again that have ended, or have not reported for long, and return their names.

        Call this again and again; a busy database may keep a component silent for one look.
        """
        self._count_silence()
        ended = [
            component
            for component in COMPONENTS
            if not self._processes.is_alive(f"airflow-{component}") or self._silent[component] >= LOST_LOOKS
        ]
        for component in ended:
            self._processes.kill(f"airflow-{component}")
            self._airflow(component, name=f"airflow-{component}")
            # It needs a while to report.
            self._silent[component] = -START_LOOKS
        return ended

    def trigger(self) -> str:
        """Start a DAG run and return its id."""
        return str(self._call("POST", f"dags/{DAG}/dagRuns", {"logical_date": None})["dag_run_id"])

    def state(self, run: str) -> str:
        """Return the state of a DAG run."""
        return str(self._call("GET", f"dags/{DAG}/dagRuns/{run}")["state"])

    def tasks(self, run: str) -> list[tuple[str, str]]:
        """Return the task runs of a DAG run that have started, each with its state."""
        answer = self._call("GET", f"dags/{DAG}/dagRuns/{run}/taskInstances")
        found = sorted(answer["task_instances"], key=lambda task: task["start_date"] or "9")
        return [
            (f"{task['task_id']}{_index(task['map_index'])}", task["state"])
            for task in found
            if task["state"] is not None
        ]

    def _airflow(self, *arguments: str, name: str) -> None:
        airflow = str(Path(sys.executable).parent / "airflow")
        self._processes.start(name, [airflow, *arguments], self._environment)

    def _count_silence(self) -> None:
        try:
            health = self._call("GET", "monitor/health")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            # Without an answer, nothing is known.
            return
        for name, component in REPORTING.items():
            silent = health[name]["status"] != "healthy"
            self._silent[component] = self._silent[component] + 1 if silent else min(self._silent[component], 0)

    def _ready(self, dags: Collection[str]) -> bool:
        try:
            health = self._call("GET", "monitor/health")
            healthy = all(
                health[component]["status"] == "healthy"
                for component in ("metadatabase", "scheduler", "dag_processor", "triggerer")
            )
            return healthy and not any(self._call("GET", f"dags/{dag}")["is_stale"] for dag in dags)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if not self._token:
            self._token = str(_request("GET", f"{self.url}/auth/token", None, "")["access_token"])
        return _request(method, f"{self.url}/api/v2/{path}", body, self._token)


def _request(method: str, url: str, body: dict[str, Any] | None, token: str) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - a URL of our own
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return dict(json.load(answer))


def _index(map_index: int) -> str:
    return f"[{map_index}]" if map_index >= 0 else ""


def _environment(folder: DemoFolder, size: Size, port: int) -> dict[str, str]:
    """Return the environment of all Airflow processes, without the variables of another Airflow."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    return {
        **inherited,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "AIRFLOW_HOME": str(folder.airflow_home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(CHECKOUT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder.airflow_home}/airflow.db?timeout={BUSY_SECONDS}",
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port(8793)),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port(8794)),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_BACKFILL_JOB": str(folder.job),
        "AIRFLOW_BACKFILL_NEXT_JOB": str(folder.next_job),
        "AIRFLOW_BACKFILL_JOBS": str(folder.jobs),
        "AIRFLOW_BACKFILL_POLL_INTERVAL": "5",
        "AIRFLOW_BACKFILL_BARRIERS": str(size.epochs_per_run),
    }
