"""Airflow's own processes with a separate database, for tests that need a scheduler."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import requests

from tests.ports import free_port

CHECKOUT = Path(__file__).parents[3]
AIRFLOW = str(Path(sys.executable).parent / "airflow")
COMPONENTS = ("api-server", "scheduler", "dag-processor")

START_SECONDS = 240
"""How long Airflow may take to start, and to come to what a test waits for."""


class AirflowProcesses:
    """
    Airflow's processes, each in a separate process group, to be killed and started again one by one.

    :param home: where its database and logs go.
    :param dags: its DAGs.
    :param variables: further environment variables of its processes.
    """

    def __init__(self, home: Path, dags: Path, variables: dict[str, str]) -> None:
        self.environment = _environment(home, dags) | variables
        self._home = home
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        subprocess.run([AIRFLOW, "db", "migrate"], env=self.environment, check=True, capture_output=True)

    def start(self, component: str) -> None:
        """Start a process."""
        with (self._home / f"{component}.log").open("ab") as log:
            self._running[component] = subprocess.Popen(
                [AIRFLOW, component], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, component: str) -> None:
        """Kill a process and its group by SIGKILL."""
        process = self._running.pop(component)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Terminate all processes, then kill the rest."""
        # `airflow standalone` would leave processes running.
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in self._running.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
            for process in self._running.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=20)

    def wait_until(self, reached: Callable[[], object], *, seconds: float = START_SECONDS) -> None:
        """Wait for something that Airflow does; a failure quotes the ends of its logs."""
        until = time.monotonic() + seconds
        while not reached():
            ended = [component for component, process in self._running.items() if process.poll() is not None]
            if ended or time.monotonic() > until:
                what = f"Airflow's {' and '.join(ended)} ended" if ended else "Airflow did not get there in time"
                raise AssertionError("\n\n".join([what, *self._ends_of_logs()]))
            time.sleep(1)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call Airflow's REST API; without an answer, an empty one."""
        api = f"http://localhost:{self.environment['AIRFLOW__API__PORT']}"
        try:
            token = requests.get(f"{api}/auth/token", timeout=30).json()["access_token"]
            headers = {"Authorization": f"Bearer {token}"}
            answer = requests.request(method, f"{api}/api/v2/{path}", json=body, headers=headers, timeout=30)
            return dict(answer.json()) if answer.ok and answer.content else {}
        except requests.ConnectionError:
            return {}

    def call_until_answered(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call Airflow's REST API until it succeeds, because a busy SQLite sometimes makes it fail."""
        answers: list[dict[str, Any]] = []

        def answered() -> bool:
            answers.append(self.call(method, path, body))
            return bool(answers[-1])

        self.wait_until(answered)
        return answers[-1]

    def _ends_of_logs(self) -> list[str]:
        return [f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in self._home.glob("*.log")]


@contextmanager
def airflow_server(
    home: Path, dags: Path, variables: dict[str, str], components: Sequence[str] = COMPONENTS
) -> Iterator[AirflowProcesses]:
    """
    Run Airflow for the block.

    :param home: where its database and logs go.
    :param dags: its DAGs.
    :param variables: further environment variables of its processes.
    :param components: which processes to start.
    """
    processes = AirflowProcesses(home, dags, variables)
    try:
        for component in components:
            processes.start(component)
        yield processes
    finally:
        processes.stop()


def _environment(home: Path, dags: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    port = free_port()
    return {
        **inherited,
        "PYTHONPATH": str(CHECKOUT),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    }
